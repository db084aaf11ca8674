"""The consumer for programs without asyncio.

It runs the core on a thread of its own, and crosses to it only when something is owed or has to be waited for: messages
are taken from what was fetched and decoded in the caller's thread, one compiled step for each (bench "consume as
objects"). Listeners, deserializers and interceptors of messages run in the caller's thread too.

One thread at a time uses it; another gets `ConcurrentUse`. Only `close` may come from anywhere: it ends what waits.
"""

from __future__ import annotations

import contextlib
import datetime
import re
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from penstock.client import errors
from penstock.client.background import Background
from penstock.client.cluster import TopicPartition
from penstock.client.consumer import arguments
from penstock.client.consumer.arguments import RebalanceListener
from penstock.client.consumer.commits import Committable, offsets_of
from penstock.client.consumer.core import ConsumerCore
from penstock.client.consumer.fetch_plan import Fetched
from penstock.client.consumer.positions import EARLIEST, LATEST, Reset
from penstock.client.consumer.read import Columns, Make, ReadPlan, Until, bounds_of
from penstock.client.consumer.reading import Reading
from penstock.client.consumer.sync_questions import SyncQuestions
from penstock.client.consumer.views import lag_of, shown, tell_listener
from penstock.client.deadlines import milliseconds, seconds
from penstock.client.group.nouns import GroupMetadata, Offset
from penstock.client.options import ConsumerOptions
from penstock.client.settings import ConsumerSettings
from penstock.records import kernel
from penstock.records.kernel import Message

T = TypeVar("T")

CLOSE_TIMEOUT_MS = 30_000
WAIT_S = 3600.0  # an iteration waits for ever, an hour at a time


class Consumer(SyncQuestions):
    """Reads topics: `for message in Consumer("orders", group="billing")`."""

    def __init__(
        self,
        *topics: str | re.Pattern[str] | TopicPartition | Mapping[str, object],
        settings: Mapping[str, object] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        """Topics, or one pattern, to subscribe to; or partitions to read. Nothing is opened yet.

        A mapping of settings by Kafka's names may stand first: `Consumer({"bootstrap.servers": ...}, "orders")`."""
        first, wanted = arguments.settings_and_topics(topics)
        self._settings = ConsumerSettings.of(first, settings, options)
        self._core = core = ConsumerCore(self._settings)
        self._background = Background("penstock-consumer")
        core.handout.post = _poster(self._background, core)
        self._lock = threading.RLock()
        self._listener: RebalanceListener | None = None
        self._max_poll_records: int = self._settings.get("max.poll.records")
        self._is_closing = False
        self._closer: int | None = None
        """The thread whose listener may still commit while the consumer is closed."""
        arguments.read_what(self, wanted)

    @property
    def settings(self) -> ConsumerSettings:
        return self._settings

    def __repr__(self) -> str:
        return shown(self._core, is_closed=self._is_closing)

    # What is read

    def subscribe(
        self,
        topics: str | re.Pattern[str] | Iterable[str] | None = None,
        *,
        pattern: re.Pattern[str] | str | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read these topics: with a group its share of them, else all of them, with partitions that come later."""
        subscription = arguments.subscription_of(topics, pattern)
        arguments.check_listener(listener)
        with self._in_use():
            self._listener = listener
            self._do(lambda: self._core.subscribe(subscription, has_listener=listener is not None))

    def unsubscribe(self) -> None:
        with self._in_use():
            if self._core.is_started:
                self._tell_that_all_goes()
                self._call(self._core.unsubscribe)
            else:
                self._core.forget()

    def subscription(self) -> frozenset[str]:
        """The topics that were subscribed to by name."""
        return self._core.subscription.topics

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions; a group then only remembers offsets."""
        wanted = arguments.partitions_of([partitions])
        with self._in_use():
            self._do(lambda: self._core.assign(wanted))

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this consumer reads now."""
        return frozenset(self._core.positions.partitions)

    # Messages

    def poll(self, timeout: float = 1.0, max_records: int | None = None) -> list[Message]:
        """The next messages, as soon as there are some; none when `timeout` seconds are over."""
        count_max = arguments.count_of(max_records, self._max_poll_records)
        deadline = time.monotonic() + seconds(timeout)
        with self._in_use():
            handout, interceptors = self._core.handout, self._core.interceptors
            while True:
                self._attend()
                messages = handout.take(count_max)
                if messages:
                    return interceptors.on_consume(messages) if interceptors else messages
                left = deadline - time.monotonic()
                if left <= 0:
                    return []
                self._call(partial(self._core.wait, left))

    def __iter__(self) -> Iterator[Message]:
        """Messages without end; the loop's `break` ends it, or `close` from elsewhere."""
        if self._is_closing:
            raise errors.ClientClosed
        stream = kernel.MessageStream(self._refill)
        return self._intercepted(stream) if self._core.interceptors else stream

    def _refill(self) -> tuple[kernel.FetchedRecords, int] | None:
        try:
            return self._next_source().records, self._max_poll_records
        except errors.ClientClosed:
            return None  # by another thread, or a signal, while this one was reading

    def _next_source(self) -> Fetched:
        with self._in_use():
            while True:
                self._attend()
                source = self._core.handout.next_source()
                if source is not None:
                    return source
                self._call(partial(self._core.wait, WAIT_S))

    def _intercepted(self, stream: Iterator[Message]) -> Generator[Message, None, None]:
        for message in stream:
            yield from self._core.interceptors.on_consume([message])

    def read(
        self,
        until: Until = "end",
        *,
        limit: int | None = None,
        headers: bool = True,
        timestamp_types: bool = False,
        timeout: float | None = None,
    ) -> Reading:
        """What there is from the positions on, up to a bound, as columns or messages. It is read when it is used;
        `TimedOut` where nothing comes for `timeout` seconds, or `default.api.timeout.ms`. Columns have `headers` and,
        with `timestamp_types`, whose the times are: 0 for producers', 1 for brokers'."""
        limit = None if limit is None else arguments.count_of(limit, 1, name="limit")
        bounds = bounds_of(until)
        patience_s = self._core.client.api_timeout_ms / 1000 if timeout is None else seconds(timeout)
        columns = Columns(headers, timestamp_types)
        begin = partial(self._core.begin_read, bounds, limit=limit, columns=columns)
        return Reading(lambda make: self._read(begin, patience_s, make), columns)

    def _read(
        self, begin: Callable[[int], Coroutine[Any, Any, ReadPlan]], patience_s: float, make: Make
    ) -> Generator[Any, None, None]:
        core = self._core
        with self._in_use():
            self._until_assigned(patience_s)
            plan = self._call_until(begin, patience_s)
        try:
            while (made := self._read_some(plan, make, patience_s)) is not None:
                yield made
        finally:
            if not self._is_closing:
                self._do(lambda: core.end_read(plan))

    def _read_some(self, plan: ReadPlan, make: Make, patience_s: float) -> Any:
        """What the next source has; None when all was read."""
        core = self._core
        deadline = time.monotonic() + patience_s
        with self._in_use():
            while not plan.is_done:
                self._attend()
                source = core.handout.next_source()
                if source is None:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        raise errors.TimedOut(f"nothing came for {patience_s:g} s")
                    self._call(partial(core.wait, left))
                    continue
                made = make(plan, source)
                core.handout.note_place()
                plan.note_progress(source.state.partition)
                # Something came, though all of it may have been aborted.
                deadline = time.monotonic() + patience_s
                if plan.rewind is not None:
                    self._rewind(plan)
                if made and core.interceptors and make is ReadPlan.messages:
                    made = core.interceptors.on_consume(made)
                if made is not None and len(made):
                    return made
        return None

    def _rewind(self, plan: ReadPlan) -> None:
        assert plan.rewind is not None
        partition, offset = plan.rewind
        plan.rewind = None
        self._do(lambda: self._core.seek(partition, offset))

    def _until_assigned(self, patience_s: float) -> None:
        deadline = time.monotonic() + patience_s
        self._attend()
        while not self._core.has_assignment:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._core.not_assigned(patience_s)
            self._call(partial(self._core.wait, left))
            self._attend()

    # Positions

    def seek(self, partition: TopicPartition, offset: int | Offset | Message) -> None:
        """Go on at `offset`, with the next message that is asked for."""
        where = arguments.partition_of(partition)
        place, epoch = arguments.place_of(offset, where)
        with self._in_use():
            self._do(lambda: self._core.seek(where, place, epoch))

    def seek_to_beginning(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Of these, or of all that are assigned."""
        self._reset(partitions, EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        self._reset(partitions, LATEST)

    def seek_to_time(
        self, at: int | datetime.datetime, *partitions: TopicPartition | Iterable[TopicPartition]
    ) -> None:
        """To the first message that is not older; to the end where all are."""
        self._reset(partitions, Reset(arguments.timestamp_of(at)))

    def _reset(self, partitions: Iterable[object], reset: Reset) -> None:
        wanted = arguments.partitions_of(partitions)
        with self._in_use():
            self._do(lambda: self._core.reset(wanted, reset))

    def rewind(self) -> None:
        """Go back to the offsets that this consumer committed last, or to where it began: all messages that were given
        since are given again. `Producer.transaction(consumer=...)` does so after an abort."""
        with self._in_use():
            self._core.handout.note_place()
            self._do(self._core.rewind)

    def _note_committed(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """A transaction has committed these."""
        self._do(lambda: self._core.positions.note_committed(offsets))

    def position(self, partition: TopicPartition, *, timeout: float | None = None) -> int:
        """The offset of the next message that will be given."""
        where = arguments.partition_of(partition)
        with self._in_use():
            self._core.handout.note_place()
            return self._call_until(lambda deadline_ms: self._core.position(where, deadline_ms), timeout)

    def positions(self) -> dict[TopicPartition, int]:
        """Those that are known by now."""
        with self._in_use():
            self._core.handout.note_place()
            return {state.partition: state.offset for state in self._core.positions if state.has_position}

    def pause(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Give nothing of these until `resume`; they stay this consumer's."""
        wanted = arguments.partitions_of(partitions)
        with self._in_use():
            self._do(lambda: self._core.pause(wanted, is_paused=True))

    def resume(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        wanted = arguments.partitions_of(partitions)
        with self._in_use():
            self._do(lambda: self._core.pause(wanted, is_paused=False))

    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(state.partition for state in self._core.positions if state.is_paused)

    def lag(self, partition: TopicPartition) -> int | None:
        """How many offsets lie between the position and the end of the log, as far as it is known."""
        with self._in_use():
            self._core.handout.note_place()
            return lag_of(self._core.positions.of(arguments.partition_of(partition)))

    # Commits

    def commit(self, what: Committable | None = None, *, timeout: float | None = None) -> None:
        """Tell the group how far it has read: what was given so far, or what is named here. Returns when it is done."""
        offsets = None if what is None else offsets_of(what)
        with self._in_use():
            self._core.handout.note_place()
            self._call_until(lambda deadline_ms: self._core.commit(offsets, deadline_ms), timeout)

    def commit_async(
        self,
        what: Committable | None = None,
        *,
        on_done: Callable[[Mapping[TopicPartition, Offset], errors.PenstockError | None], object]
        | None = None,
    ) -> None:
        """The same without waiting. `on_done` is called from the consumer's own thread, where it must not wait."""
        offsets = None if what is None else offsets_of(what)
        arguments.check_callback(on_done)
        with self._in_use():
            self._core.handout.note_place()
            self._call(partial(_as_coroutine, lambda: self._core.commit_soon(offsets, on_done)))

    def committed(
        self,
        *partitions: TopicPartition | Iterable[TopicPartition],
        timeout: float | None = None,
    ) -> dict[TopicPartition, Offset]:
        """What the group has committed, of these or of all that are assigned; nothing where it has not."""
        wanted = arguments.partitions_of(partitions) or list(self._core.positions.partitions)
        with self._in_use():
            return self._call_until(lambda deadline_ms: self._core.committed(wanted, deadline_ms), timeout)

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is to its group, as a transaction has to know it."""
        with self._in_use():
            return self._call(partial(_as_coroutine, lambda: self._core.group_metadata))

    # The end

    def close(self, *, timeout: float | None = None) -> None:
        """Commit what was given, if commits are automatic, leave the group and end, within `timeout` seconds (30).
        May come from any thread."""
        self._close(CLOSE_TIMEOUT_MS if timeout is None else milliseconds(timeout), is_certain=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(CLOSE_TIMEOUT_MS, is_certain=kind is None)

    def _close(self, timeout_ms: int, *, is_certain: bool) -> None:
        """`is_certain`: the application is done with the last messages that it was given."""
        if self._is_closing:
            return
        self._is_closing = True
        if (
            self._background.is_left_behind
        ):  # there is nothing here to close, and the group is not this process's to leave
            self._background.close()
            return
        if not self._core.is_started:
            if self._background.is_running:  # it was asked about topics or offsets, and has connections
                self._background.call(partial(self._core.close, timeout_ms=timeout_ms))
            self._core.is_closed = True
            self._background.close()
            return
        self._background.post(self._core.interrupt)  # whoever waits in another thread
        with self._lock:
            if is_certain:
                self._core.handout.stop()
            else:
                self._core.handout.note_place()
                self._core.handout.unsettle()
            try:
                self._closer = threading.get_ident()
                self._tell_that_all_goes(timeout_ms)
            finally:
                self._closer = None
                self._background.call(partial(self._core.close, timeout_ms=timeout_ms))
                self._background.close()

    # Helpers

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[None]:
        if not self._lock.acquire(blocking=False):
            # Whoever closes has the lock, and the one that reads meanwhile is to be told of that.
            raise errors.ClientClosed if self._is_closing else errors.ConcurrentUse
        try:
            if self._is_closing and self._closer != threading.get_ident():
                raise errors.ClientClosed
            yield
        finally:
            self._lock.release()

    def _attend(self) -> None:
        core = self._core
        while core.has_business():
            core.handout.note_place()
            event = self._call(core.attend)
            if event is None:
                return
            try:
                tell_listener(self._listener, event)
            finally:
                self._do(lambda: core.settle(event))  # noqa: B023  # called at once

    def _tell_that_all_goes(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        event = self._background.call(partial(self._core.let_go, timeout_ms=timeout_ms))
        if event is not None:
            try:
                tell_listener(self._listener, event)
            finally:
                self._background.call(partial(_as_coroutine, lambda: self._core.settle(event)))

    def _call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        outcome = self._background.call(work)
        if self._is_closing:
            raise errors.ClientClosed
        return outcome

    def _call_until(self, make: Callable[[int], Coroutine[Any, Any, T]], timeout: float | None) -> T:
        timeout_ms = milliseconds(timeout)

        async def run() -> T:
            return await make(self._core.client.deadline(timeout_ms))

        return self._background.call(run)

    def _do(self, step: Callable[[], T]) -> T:
        """On the loop, once there is one."""
        return self._background.call(partial(_as_coroutine, step)) if self._core.is_started else step()


async def _as_coroutine(step: Callable[[], T]) -> T:
    return step()


def _poster(background: Background, core: ConsumerCore) -> Callable[[Fetched], None]:
    """Tells the loop what is done with. Nothing that the loop's tasks hold may hold the background: a consumer that
    nobody holds is then collected, and its thread ends."""
    held = weakref.ref(background)

    def post(finished: Fetched) -> None:
        if (alive := held()) is not None:
            alive.post(core.finished, finished)

    return post
