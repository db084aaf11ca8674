"""The consumer for asyncio: the same as `sync`, on the loop of whoever uses it.

Messages are decoded when they are asked for, one compiled step for each. Between two portions of at most
`max.poll.records` others get their turn on the loop, those that fetch among them.

One task at a time polls or iterates; another gets `ConcurrentUse`. All other calls may come while one waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from inspect import isawaitable
from itertools import islice
from types import TracebackType
from typing import Any, Self, Unpack

from penstock.client import errors
from penstock.client.cluster import PartitionInfo, TopicPartition
from penstock.client.consumer import arguments
from penstock.client.consumer.arguments import RebalanceListener
from penstock.client.consumer.commits import Committable, offsets_of
from penstock.client.consumer.core import ConsumerCore
from penstock.client.consumer.fetch_plan import Fetched
from penstock.client.consumer.lookups import OffsetAndTimestamp
from penstock.client.consumer.positions import EARLIEST, EARLIEST_TIMESTAMP, LATEST, LATEST_TIMESTAMP, Reset
from penstock.client.consumer.read import Columns, Make, ReadPlan, Until, bounds_of
from penstock.client.consumer.reading import AsyncReading
from penstock.client.consumer.views import lag_of, offsets_and_times, only_offsets, shown, tell_listener
from penstock.client.deadlines import milliseconds, seconds
from penstock.client.group.nouns import Event, GroupMetadata, Offset
from penstock.client.options import ConsumerOptions
from penstock.client.settings import ConsumerSettings
from penstock.records.kernel import Message
from penstock.runtime.clock import Clock
from penstock.runtime.network import Network

CLOSE_TIMEOUT_MS = 30_000
WAIT_S = 3600.0  # an iteration waits for ever, an hour at a time


class Consumer:
    """Reads topics: `async for message in Consumer("orders", group="billing")`."""

    def __init__(
        self,
        *topics: str | re.Pattern[str] | TopicPartition | Mapping[str, object],
        settings: Mapping[str, object] | None = None,
        network: Network | None = None,
        clock: Clock | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        """Topics, or one pattern, to subscribe to; or partitions to read. Nothing is opened yet.

        A mapping of settings by Kafka's names may stand first: `Consumer({"bootstrap.servers": ...}, "orders")`."""
        first, wanted = arguments.settings_and_topics(topics)
        self._settings = ConsumerSettings.of(first, settings, options)
        self._core = ConsumerCore(self._settings, network=network, clock=clock, now_s=_now_s)
        self._listener: RebalanceListener | None = None
        self._max_poll_records: int = self._settings.get("max.poll.records")
        self._user: asyncio.Task[Any] | None = None
        self._is_ending = False
        """The listener is told that all goes, and may still commit."""
        self._is_closing = False
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
        """Read these topics: with a group its share of them, else all of them, with partitions that come later.

        The listener's methods may be coroutines."""
        self._check_open()
        subscription = arguments.subscription_of(topics, pattern)
        arguments.check_listener(listener)
        self._listener = listener
        self._core.subscribe(subscription, has_listener=listener is not None)

    async def unsubscribe(self) -> None:
        self._check_open()
        if self._core.is_started:
            await self._tell_that_all_goes()
            await self._core.unsubscribe()
        else:
            self._core.forget()

    def subscription(self) -> frozenset[str]:
        """The topics that were subscribed to by name."""
        return self._core.subscription.topics

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions; a group then only remembers offsets."""
        self._check_open()
        self._core.assign(arguments.partitions_of([partitions]))

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this consumer reads now."""
        return frozenset(self._core.positions.partitions)

    # Messages

    async def poll(self, timeout: float = 1.0, max_records: int | None = None) -> list[Message]:
        """The next messages, as soon as there are some; none when `timeout` seconds are over."""
        count_max = arguments.count_of(max_records, self._max_poll_records)
        deadline = _now_s() + seconds(timeout)
        with self._in_use():
            core, interceptors = self._core, self._core.interceptors
            await asyncio.sleep(0)
            while True:
                await self._attend()
                messages = core.handout.take(count_max)
                if messages:
                    return interceptors.on_consume(messages) if interceptors else messages
                left = deadline - _now_s()
                if left <= 0:
                    return []
                await self._wait(left)

    def __aiter__(self) -> AsyncIterator[Message]:
        """Messages without end; the loop's `break` ends it, or `close` from elsewhere."""
        self._check_open()
        return self._iterate()

    async def _iterate(self) -> AsyncGenerator[Message, None]:
        interceptors = self._core.interceptors
        while True:
            try:
                source = await self._next_source()
            except errors.ClientClosed:
                return  # by another task, while this one was reading
            portion = islice(source.records, self._max_poll_records)
            if interceptors:
                for message in portion:
                    for each in interceptors.on_consume([message]):
                        yield each
            else:
                for message in portion:  # nothing else in this loop: bench "consume as objects, asyncio"
                    yield message

    async def _next_source(self) -> Fetched:
        with self._in_use():
            await asyncio.sleep(0)
            while True:
                await self._attend()
                source = self._core.handout.next_source()
                if source is not None:
                    return source
                await self._wait(WAIT_S)

    def read(
        self,
        until: Until = "end",
        *,
        limit: int | None = None,
        headers: bool = True,
        timestamp_types: bool = False,
        timeout: float | None = None,
    ) -> AsyncReading:
        """What there is from the positions on, up to a bound, as columns or messages. It is read when it is used;
        `TimedOut` where nothing comes for `timeout` seconds, or `default.api.timeout.ms`. Columns have `headers` and,
        with `timestamp_types`, whose the times are: 0 for producers', 1 for brokers'."""
        limit = None if limit is None else arguments.count_of(limit, 1, name="limit")
        bounds = bounds_of(until)
        patience_s = self._core.client.api_timeout_ms / 1000 if timeout is None else seconds(timeout)
        columns = Columns(headers, timestamp_types)
        begin = partial(self._core.begin_read, bounds, limit=limit, columns=columns)
        return AsyncReading(lambda make: self._read(begin, patience_s, make), columns)

    async def _read(
        self, begin: Callable[[int], Awaitable[ReadPlan]], patience_s: float, make: Make
    ) -> AsyncGenerator[Any, None]:
        core = self._core
        with self._in_use():
            await self._until_assigned(patience_s)
            deadline_ms = self._deadline(patience_s)
            plan = await begin(deadline_ms)
        try:
            while (made := await self._read_some(plan, make, patience_s)) is not None:
                yield made
        finally:
            core.end_read(plan)

    async def _read_some(self, plan: ReadPlan, make: Make, patience_s: float) -> Any:
        """What the next source has; None when all was read."""
        core = self._core
        deadline = _now_s() + patience_s
        with self._in_use():
            await asyncio.sleep(0)
            while not plan.is_done:
                await self._attend()
                source = core.handout.next_source()
                if source is None:
                    left = deadline - _now_s()
                    if left <= 0:
                        raise errors.TimedOut(f"nothing came for {patience_s:g} s")
                    await self._wait(left)
                    continue
                made = make(plan, source)
                core.handout.note_place()
                plan.note_progress(source.state.partition)
                deadline = _now_s() + patience_s  # something came, though all of it may have been aborted
                if plan.rewind is not None:
                    (partition, offset), plan.rewind = plan.rewind, None
                    core.seek(partition, offset)
                if made and core.interceptors and make is ReadPlan.messages:
                    made = core.interceptors.on_consume(made)
                if made is not None and len(made):
                    return made
        return None

    async def _until_assigned(self, patience_s: float) -> None:
        deadline = _now_s() + patience_s
        await self._attend()
        while not self._core.has_assignment:
            left = deadline - _now_s()
            if left <= 0:
                raise self._core.not_assigned(patience_s)
            await self._wait(left)
            await self._attend()

    # Positions

    def seek(self, partition: TopicPartition, offset: int | Offset | Message) -> None:
        """Go on at `offset`, with the next message that is asked for."""
        self._check_open()
        where = arguments.partition_of(partition)
        self._core.seek(where, *arguments.place_of(offset, where))

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
        self._check_open()
        self._core.reset(arguments.partitions_of(partitions), reset)

    def rewind(self) -> None:
        """Go back to the offsets that this consumer committed last, or to where it began: all messages that were given
        since are given again. `Producer.transaction(consumer=...)` does so after an abort."""
        self._check_open()
        self._core.handout.note_place()
        self._core.rewind()

    def _note_committed(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """A transaction has committed these."""
        self._core.positions.note_committed(offsets)

    async def position(self, partition: TopicPartition, *, timeout: float | None = None) -> int:
        """The offset of the next message that will be given."""
        where = arguments.partition_of(partition)
        self._check_open()
        self._core.handout.note_place()
        return await self._core.position(where, self._deadline(timeout))

    def positions(self) -> dict[TopicPartition, int]:
        """Those that are known by now."""
        self._core.handout.note_place()
        return {state.partition: state.offset for state in self._core.positions if state.has_position}

    def pause(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Give nothing of these until `resume`; they stay this consumer's."""
        self._check_open()
        self._core.pause(arguments.partitions_of(partitions), is_paused=True)

    def resume(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        self._check_open()
        self._core.pause(arguments.partitions_of(partitions), is_paused=False)

    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(state.partition for state in self._core.positions if state.is_paused)

    def lag(self, partition: TopicPartition) -> int | None:
        """How many offsets lie between the position and the end of the log, as far as it is known."""
        self._core.handout.note_place()
        return lag_of(self._core.positions.of(arguments.partition_of(partition)))

    # Commits

    async def commit(self, what: Committable | None = None, *, timeout: float | None = None) -> None:
        """Tell the group how far it has read: what was given so far, or what is named here."""
        self._check_open()
        offsets = None if what is None else offsets_of(what)
        self._core.handout.note_place()
        await self._core.commit(offsets, self._deadline(timeout))

    async def committed(
        self, *partitions: TopicPartition | Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, Offset]:
        """What the group has committed, of these or of all that are assigned; nothing where it has not."""
        self._check_open()
        wanted = arguments.partitions_of(partitions) or list(self._core.positions.partitions)
        return await self._core.committed(wanted, self._deadline(timeout))

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is to its group, as a transaction has to know it."""
        self._check_open()
        return self._core.group_metadata

    # Questions to the cluster

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int | datetime.datetime], *, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first message of each partition that is not older; None where all are."""
        wanted = arguments.timestamps_of(times)
        self._check_open()
        return offsets_and_times(await self._core.questions.list_offsets(wanted, self._deadline(timeout)))

    async def beginning_offsets(
        self, *partitions: TopicPartition | Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each of these partitions, or of all that are assigned."""
        return await self._ends(partitions, EARLIEST_TIMESTAMP, timeout)

    async def end_offsets(
        self, *partitions: TopicPartition | Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last message that a reader of this isolation level sees."""
        return await self._ends(partitions, LATEST_TIMESTAMP, timeout)

    async def _ends(
        self, partitions: Iterable[object], timestamp: int, timeout: float | None
    ) -> dict[TopicPartition, int]:
        self._check_open()
        wanted = arguments.partitions_of(partitions) or self._core.positions.partitions
        deadline_ms = self._deadline(timeout)
        return only_offsets(
            await self._core.questions.list_offsets(dict.fromkeys(wanted, timestamp), deadline_ms)
        )

    async def partitions_for(self, topic: str, *, timeout: float | None = None) -> tuple[PartitionInfo, ...]:
        """The partitions of a topic, by index; `UnknownTopicOrPartition` where there is no such topic."""
        self._check_open()
        return await self._core.questions.partitions_for(topic, self._deadline(timeout))

    def topic_id(self, topic: str) -> str | None:
        """The id of a topic by which this consumer fetches it just now; None where it has not met the topic.

        Nothing is asked of the cluster. A topic that was deleted and made anew has another id.
        """
        return self._core.client.cluster.id_of(arguments.topic_of(topic))

    async def topics(self, *, timeout: float | None = None) -> frozenset[str]:
        """The names of all topics that this client may see."""
        self._check_open()
        return await self._core.questions.topic_names(self._deadline(timeout))

    # The end

    async def close(self, *, timeout: float | None = None) -> None:
        """Commit what was given, if commits are automatic, leave the group and end, within `timeout` seconds (30)."""
        await self._close(CLOSE_TIMEOUT_MS if timeout is None else milliseconds(timeout), is_certain=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(CLOSE_TIMEOUT_MS, is_certain=kind is None)

    async def _close(self, timeout_ms: int, *, is_certain: bool) -> None:
        """`is_certain`: the application is done with the last messages that it was given."""
        if self._is_ending:
            return
        self._is_ending = True
        core = self._core
        if is_certain:
            core.handout.stop()
        else:
            core.handout.note_place()
            core.handout.unsettle()
        try:
            await self._tell_that_all_goes(timeout_ms)
        finally:
            self._is_closing = True
            core.interrupt()
            await core.close(timeout_ms=timeout_ms)

    # Helpers

    def _deadline(self, timeout: float | None) -> int:
        return self._core.client.deadline(milliseconds(timeout))

    def _check_open(self) -> None:
        if self._is_closing:
            raise errors.ClientClosed

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[None]:
        """By one task at a time; what it calls in turn (a listener) is the same task."""
        self._check_open()
        task = asyncio.current_task()
        if self._user is not None and self._user is not task:
            raise errors.ConcurrentUse
        outer, self._user = self._user, task
        try:
            yield
        finally:
            self._user = outer

    async def _attend(self) -> None:
        core = self._core
        while core.has_business():
            core.handout.note_place()
            event = await core.attend()
            if event is None:
                return
            await self._tell(event)

    async def _tell(self, event: Event) -> None:
        try:
            told: Awaitable[object] | object = tell_listener(self._listener, event)
            if isawaitable(told):
                await told
        finally:
            self._core.settle(event)

    async def _tell_that_all_goes(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        event = await self._core.let_go(timeout_ms=timeout_ms)
        if event is not None:
            await self._tell(event)

    async def _wait(self, timeout_s: float) -> None:
        await self._core.wait(timeout_s)
        self._check_open()


def _now_s() -> float:
    """The loop's own time, which may be a simulated one."""
    return asyncio.get_running_loop().time()
