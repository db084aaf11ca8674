"""The consumer for programs without asyncio.

The core runs on a thread of its own. The consumer calls into that thread only when there is work to do or to wait for.
Messages are decoded in the caller's thread, one compiled step for each (bench "consume as objects"). Listeners,
deserializers and `on_consume` interceptors also run in the caller's thread.

One thread at a time may use a consumer; a second one gets `ConcurrentUse`. Only `close` may be called from any thread,
and it ends a call that waits.
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
from penstock.client.cluster import PartitionInfo, TopicPartition
from penstock.client.consumer import arguments
from penstock.client.consumer.base import CLOSE_TIMEOUT_MS, WAIT_S, BaseConsumer, Begin
from penstock.client.consumer.commits import Committable, offsets_of
from penstock.client.consumer.core import ConsumerCore
from penstock.client.consumer.fetch_plan import Fetched
from penstock.client.consumer.lookups import OffsetAndTimestamp
from penstock.client.consumer.read import Make, ReadPlan, Until
from penstock.client.consumer.reading import Reading
from penstock.client.deadlines import milliseconds, seconds
from penstock.client.group.types import GroupMetadata, Offset
from penstock.client.options import ConsumerOptions
from penstock.client.settings import ConsumerSettings
from penstock.protocol.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from penstock.records import consuming
from penstock.records.consuming import Message

T = TypeVar("T")


class Consumer(BaseConsumer):
    """Reads messages from topics.

        with Consumer("orders", group="billing") as consumer:
            for message in consumer:
                print(message.key, message.value)

    The arguments are topics or one pattern to subscribe to, or partitions to assign. Settings have Kafka's names:
    with underscores as keywords, with dots in `settings`. No connection is opened before the first call that needs one.
    """

    def __init__(
        self,
        *topics: str | re.Pattern[str] | TopicPartition | Mapping[str, object],
        settings: Mapping[str, object] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        """A mapping of settings may come first: `Consumer({"bootstrap.servers": ...}, "orders")`."""
        first, wanted = arguments.settings_and_topics(topics)
        core = ConsumerCore(ConsumerSettings.of(first, settings, options))
        self._background = Background("penstock-consumer")
        core.collector.post = _poster(self._background, core)
        self._lock = threading.RLock()
        self._closer: int | None = None
        """The thread whose listener may still commit while the consumer closes."""
        super().__init__(core, wanted)

    def unsubscribe(self) -> None:
        """Leave the group and give up all partitions. The listener is notified."""
        with self._in_use():
            if self._core.is_started:
                self._revoke_all()
                self._call(self._core.unsubscribe)
            else:
                self._core.forget()

    # Messages

    def poll(self, timeout: float = 1.0, max_records: int | None = None) -> list[Message]:
        """The next messages, as soon as there are any; an empty list after `timeout` seconds."""
        count_max = arguments.count_of(max_records, self._max_poll_records)
        deadline = time.monotonic() + seconds(timeout)
        with self._in_use():
            collector, interceptors = self._core.collector, self._core.interceptors
            while True:
                self._process_pending()
                messages = collector.take(count_max)
                if messages:
                    return interceptors.on_consume(messages) if interceptors else messages
                left = deadline - time.monotonic()
                if left <= 0:
                    return []
                self._call(partial(self._core.wait, left))

    def __iter__(self) -> Iterator[Message]:
        """Iterate over messages without end. `break` leaves the loop; `close` from another thread ends it."""
        if self._is_closing:
            raise errors.ClientClosed
        stream = consuming.MessageStream(self._refill)
        return self._intercepted(stream) if self._core.interceptors else stream

    def _refill(self) -> tuple[consuming.FetchedRecords, int] | None:
        try:
            return self._next_source().records, self._max_poll_records
        except errors.ClientClosed:
            return None  # closed by another thread or a signal handler during the iteration

    def _next_source(self) -> Fetched:
        with self._in_use():
            while True:
                self._process_pending()
                source = self._core.collector.next_source()
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
        """Read from the current positions up to a bound, as Arrow columns or messages.

            table = consumer.read().to_arrow()

        `until` is "end" (the end of the log now), a time, or offsets by partition. Reading starts when the result is
        used. It raises `TimedOut` if no data comes for `timeout` seconds (`default.api.timeout.ms` by default).
        `timestamp_types` adds a column: 0 for CreateTime, 1 for LogAppendTime.
        """
        begin, timeout_s, columns = self._read_arguments(until, limit, headers, timestamp_types, timeout)
        return Reading(lambda make: self._read(begin, timeout_s, make), columns)

    def _read(self, begin: Begin, timeout_s: float, make: Make) -> Generator[Any, None, None]:
        core = self._core
        with self._in_use():
            self._until_assigned(timeout_s)
            plan = self._call_until(begin, timeout_s)
        try:
            while (made := self._read_some(plan, make, timeout_s)) is not None:
                yield made
        finally:
            if not self._is_closing:
                self._do(lambda: core.end_read(plan))

    def _read_some(self, plan: ReadPlan, make: Make, timeout_s: float) -> Any:
        """The data of the next source; None at the end of the read."""
        deadline = time.monotonic() + timeout_s
        with self._in_use():
            while not plan.is_done:
                self._process_pending()
                source = self._core.collector.next_source()
                if source is None:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        raise errors.TimedOut(f"no data came for {timeout_s:g} s")
                    self._call(partial(self._core.wait, left))
                    continue
                deadline = time.monotonic() + timeout_s  # data came, even if all of it was aborted
                if (made := self._read_source(plan, make, source)) is not None:
                    return made
        return None

    def _until_assigned(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        self._process_pending()
        while not self._core.has_assignment:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._core.not_assigned(timeout_s)
            self._call(partial(self._core.wait, left))
            self._process_pending()

    # Positions and commits

    def position(self, partition: TopicPartition, *, timeout: float | None = None) -> int:
        """The offset of the next message of a partition. Waits until it is known."""
        where = arguments.partition_of(partition)
        with self._in_use():
            self._core.collector.update_position()
            return self._call_until(lambda deadline_ms: self._core.position(where, deadline_ms), timeout)

    def commit(self, what: Committable | None = None, *, timeout: float | None = None) -> None:
        """Commit offsets to the group, and wait until they are stored.

        consumer.commit()                                    # all messages returned so far
        consumer.commit(message)                             # up to and including this message
        consumer.commit({TopicPartition("orders", 0): 42})   # 42 is the next offset to read
        """
        offsets = None if what is None else offsets_of(what)
        with self._in_use():
            self._core.collector.update_position()
            self._call_until(lambda deadline_ms: self._core.commit(offsets, deadline_ms), timeout)

    def commit_async(
        self,
        what: Committable | None = None,
        *,
        on_done: Callable[[Mapping[TopicPartition, Offset], errors.PenstockError | None], object]
        | None = None,
    ) -> None:
        """Commit without waiting. `on_done` runs on the consumer's own thread and must not block."""
        offsets = None if what is None else offsets_of(what)
        arguments.check_callback(on_done)
        with self._in_use():
            self._core.collector.update_position()
            self._call(partial(_as_coroutine, lambda: self._core.commit_in_background(offsets, on_done)))

    def committed(
        self,
        *partitions: TopicPartition | Iterable[TopicPartition],
        timeout: float | None = None,
    ) -> dict[TopicPartition, Offset]:
        """The group's committed offsets of these partitions, or of all assigned ones. Those without are left out."""
        wanted = arguments.partitions_of(partitions) or list(self._core.positions.partitions)
        with self._in_use():
            return self._call_until(lambda deadline_ms: self._core.committed(wanted, deadline_ms), timeout)

    def group_metadata(self) -> GroupMetadata:
        """This consumer's membership in its group, for `Producer.send_offsets`."""
        with self._in_use():
            return self._call(partial(_as_coroutine, lambda: self._core.group_metadata))

    # Cluster metadata and offsets

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int | datetime.datetime], *, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """For each partition the first message with this timestamp or a later one; None if there is none."""
        wanted = arguments.timestamps_of(times)
        queries = self._core.queries
        with self._in_use():
            return self._call_until(
                lambda deadline_ms: queries.offsets_for_times(wanted, deadline_ms), timeout
            )

    def beginning_offsets(
        self, *partitions: TopicPartition | Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each of these partitions, or of all assigned ones."""
        return self._offsets_at(partitions, EARLIEST_TIMESTAMP, timeout)

    def end_offsets(
        self, *partitions: TopicPartition | Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset after the last message that is visible at this consumer's isolation level."""
        return self._offsets_at(partitions, LATEST_TIMESTAMP, timeout)

    def _offsets_at(
        self, partitions: Iterable[object], timestamp: int, timeout: float | None
    ) -> dict[TopicPartition, int]:
        wanted = arguments.partitions_of(partitions) or self._core.positions.partitions
        queries = self._core.queries
        with self._in_use():
            return self._call_until(
                lambda deadline_ms: queries.offsets_at(wanted, timestamp, deadline_ms), timeout
            )

    def partitions_for(self, topic: str, *, timeout: float | None = None) -> tuple[PartitionInfo, ...]:
        """The partitions of a topic, by index. `UnknownTopicOrPartition` if the topic does not exist."""
        queries = self._core.queries
        with self._in_use():
            return self._call_until(lambda deadline_ms: queries.partitions_for(topic, deadline_ms), timeout)

    def topics(self, *, timeout: float | None = None) -> frozenset[str]:
        """The names of all topics that this client is allowed to see."""
        with self._in_use():
            return self._call_until(self._core.queries.topic_names, timeout)

    # Closing

    def close(self, *, timeout: float | None = None) -> None:
        """Commit (if auto-commit is on), leave the group and close, within `timeout` seconds (30 by default).

        Any thread may call it.
        """
        self._close(CLOSE_TIMEOUT_MS if timeout is None else milliseconds(timeout), is_certain=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(CLOSE_TIMEOUT_MS, is_certain=kind is None)

    def _close(self, timeout_ms: int, *, is_certain: bool) -> None:
        """`is_certain`: the application has processed the last messages that it received."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._background.is_forked:  # after a fork: the parent process is the group's member
            self._background.close()
            return
        if not self._core.is_started:
            if self._background.is_running:  # a query has opened connections
                self._background.call(partial(self._core.close, timeout_ms=timeout_ms))
            self._core.is_closed = True
            self._background.close()
            return
        self._background.post(self._core.interrupt)  # wakes a call that waits in another thread
        with self._lock:
            self._stop_collector(is_certain=is_certain)
            try:
                self._closer = threading.get_ident()
                self._revoke_all(timeout_ms)
            finally:
                self._closer = None
                self._background.call(partial(self._core.close, timeout_ms=timeout_ms))
                self._background.close()

    # Crossing to the consumer's thread

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[None]:
        if not self._lock.acquire(blocking=False):
            # `close` holds the lock while it closes; a reader in another thread then gets ClientClosed.
            raise errors.ClientClosed if self._is_closing else errors.ConcurrentUse
        try:
            if self._is_closing and self._closer != threading.get_ident():
                raise errors.ClientClosed
            yield
        finally:
            self._lock.release()

    def _process_pending(self) -> None:
        core = self._core
        while core.has_pending_work():
            core.collector.update_position()
            event = self._call(core.process_pending)
            if event is None:
                return
            try:
                self._notify_listener(event)
            finally:
                self._do(lambda: core.complete(event))  # noqa: B023  # called at once

    def _revoke_all(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        event = self._background.call(partial(self._core.revoke_all, timeout_ms=timeout_ms))
        if event is not None:
            try:
                self._notify_listener(event)
            finally:
                self._background.call(partial(_as_coroutine, lambda: self._core.complete(event)))

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

    def _change(self, step: Callable[[], object]) -> None:
        with self._in_use():
            self._do(step)

    def _inspect(self, step: Callable[[], T]) -> T:
        with self._in_use():
            return step()

    def _do(self, step: Callable[[], T]) -> T:
        """On the loop if it runs, else here."""
        return self._background.call(partial(_as_coroutine, step)) if self._core.is_started else step()


async def _as_coroutine(step: Callable[[], T]) -> T:
    return step()


def _poster(background: Background, core: ConsumerCore) -> Callable[[Fetched], None]:
    """Reports consumed data to the loop. It holds the background weakly: no task of the loop may keep an unused
    consumer alive, so that the garbage collector can end its thread."""
    reference = weakref.ref(background)

    def post(finished: Fetched) -> None:
        if (alive := reference()) is not None:
            alive.post(core.finished, finished)

    return post
