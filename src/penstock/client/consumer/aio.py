"""The asyncio consumer. It runs on the application's event loop.

Messages are decoded when the application asks for them, one compiled step for each. After every `max.poll.records`
messages an iteration yields to the loop, so that fetching goes on.

One task at a time may poll or iterate; a second one gets `ConcurrentUse`. Other calls may be made while one waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import random
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from inspect import isawaitable
from itertools import islice
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from penstock.client import errors
from penstock.client.cluster import PartitionInfo, TopicPartition
from penstock.client.consumer import arguments
from penstock.client.consumer.base import CLOSE_TIMEOUT_MS, WAIT_S, BaseConsumer, Begin
from penstock.client.consumer.commits import Committable, offsets_of
from penstock.client.consumer.core import ConsumerCore
from penstock.client.consumer.fetch_plan import Fetched
from penstock.client.consumer.lookups import OffsetAndTimestamp
from penstock.client.consumer.read import Make, ReadPlan, Until
from penstock.client.consumer.reading import AsyncReading
from penstock.client.deadlines import milliseconds, seconds
from penstock.client.group.types import Event, GroupMetadata, Offset
from penstock.client.options import ConsumerOptions
from penstock.client.settings import ConsumerSettings
from penstock.protocol.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from penstock.records.consuming import Message
from penstock.runtime.clock import Clock
from penstock.runtime.network import Network

T = TypeVar("T")


class Consumer(BaseConsumer):
    """Reads messages from topics.

        async with Consumer("orders", group="billing") as consumer:
            async for message in consumer:
                print(message.key, message.value)

    The arguments are topics or one pattern to subscribe to, or partitions to assign. Settings have Kafka's names:
    with underscores as keywords, with dots in `settings`. No connection is opened before the first call that needs one.
    """

    def __init__(
        self,
        *topics: str | re.Pattern[str] | TopicPartition | Mapping[str, object],
        settings: Mapping[str, object] | None = None,
        network: Network | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        """A mapping of settings may come first: `Consumer({"bootstrap.servers": ...}, "orders")`."""
        first, wanted = arguments.settings_and_topics(topics)
        taken = ConsumerSettings.of(first, settings, options)
        self._user: asyncio.Task[Any] | None = None
        self._is_ending = False
        """`close` has begun; until it has notified the listener, the listener may still commit."""
        super().__init__(ConsumerCore(taken, network=network, clock=clock, rng=rng, now_s=_now_s), wanted)

    async def unsubscribe(self) -> None:
        """Leave the group and give up all partitions. The listener is notified."""
        self._check_open()
        if self._core.is_started:
            await self._revoke_all()
            await self._core.unsubscribe()
        else:
            self._core.forget()

    # Messages

    async def poll(self, timeout: float = 1.0, max_records: int | None = None) -> list[Message]:
        """The next messages, as soon as there are any; an empty list after `timeout` seconds."""
        count_max = arguments.count_of(max_records, self._max_poll_records)
        deadline = _now_s() + seconds(timeout)
        with self._in_use():
            collector, interceptors = self._core.collector, self._core.interceptors
            await asyncio.sleep(0)
            while True:
                await self._process_pending()
                messages = collector.take(count_max)
                if messages:
                    return interceptors.on_consume(messages) if interceptors else messages
                left = deadline - _now_s()
                if left <= 0:
                    return []
                await self._wait(left)

    def __aiter__(self) -> AsyncIterator[Message]:
        """Iterate over messages without end. `break` leaves the loop; `close` from another task ends it."""
        self._check_open()
        return self._iterate()

    async def _iterate(self) -> AsyncGenerator[Message, None]:
        interceptors = self._core.interceptors
        while True:
            try:
                source = await self._next_source()
            except errors.ClientClosed:
                return  # closed by another task during the iteration
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
                await self._process_pending()
                source = self._core.collector.next_source()
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
        """Read from the current positions up to a bound, as Arrow columns or messages.

            table = await consumer.read().to_arrow()

        `until` is "end" (the end of the log now), a time, or offsets by partition. Reading starts when the result is
        used. It raises `TimedOut` if no data comes for `timeout` seconds (`default.api.timeout.ms` by default).
        `timestamp_types` adds a column: 0 for CreateTime, 1 for LogAppendTime.
        """
        begin, timeout_s, columns = self._read_arguments(until, limit, headers, timestamp_types, timeout)
        return AsyncReading(lambda make: self._read(begin, timeout_s, make), columns)

    async def _read(self, begin: Begin, timeout_s: float, make: Make) -> AsyncGenerator[Any, None]:
        with self._in_use():
            await self._until_assigned(timeout_s)
            plan = await begin(self._deadline(timeout_s))
        try:
            while (made := await self._read_some(plan, make, timeout_s)) is not None:
                yield made
        finally:
            self._core.end_read(plan)

    async def _read_some(self, plan: ReadPlan, make: Make, timeout_s: float) -> Any:
        """The data of the next source; None at the end of the read."""
        deadline = _now_s() + timeout_s
        with self._in_use():
            await asyncio.sleep(0)
            while not plan.is_done:
                await self._process_pending()
                source = self._core.collector.next_source()
                if source is None:
                    left = deadline - _now_s()
                    if left <= 0:
                        raise errors.TimedOut(f"no data came for {timeout_s:g} s")
                    await self._wait(left)
                    continue
                deadline = _now_s() + timeout_s  # data came, even if all of it was aborted
                if (made := self._read_source(plan, make, source)) is not None:
                    return made
        return None

    async def _until_assigned(self, timeout_s: float) -> None:
        deadline = _now_s() + timeout_s
        await self._process_pending()
        while not self._core.has_assignment:
            left = deadline - _now_s()
            if left <= 0:
                raise self._core.not_assigned(timeout_s)
            await self._wait(left)
            await self._process_pending()

    # Positions and commits

    async def position(self, partition: TopicPartition, *, timeout: float | None = None) -> int:
        """The offset of the next message of a partition. Waits until it is known."""
        where = arguments.partition_of(partition)
        self._check_open()
        self._core.collector.update_position()
        return await self._core.position(where, self._deadline(timeout))

    async def commit(self, what: Committable | None = None, *, timeout: float | None = None) -> None:
        """Commit offsets to the group, and wait until they are stored.

        await consumer.commit()                                    # all messages returned so far
        await consumer.commit(message)                             # up to and including this message
        await consumer.commit({TopicPartition("orders", 0): 42})   # 42 is the next offset to read
        """
        self._check_open()
        offsets = None if what is None else offsets_of(what)
        self._core.collector.update_position()
        await self._core.commit(offsets, self._deadline(timeout))

    async def committed(
        self, *partitions: TopicPartition | Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, Offset]:
        """The group's committed offsets of these partitions, or of all assigned ones. Those without are left out."""
        self._check_open()
        wanted = arguments.partitions_of(partitions) or list(self._core.positions.partitions)
        return await self._core.committed(wanted, self._deadline(timeout))

    def group_metadata(self) -> GroupMetadata:
        """This consumer's membership in its group, for `Producer.send_offsets`."""
        self._check_open()
        return self._core.group_metadata

    # Cluster metadata and offsets

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int | datetime.datetime], *, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """For each partition the first message with this timestamp or a later one; None if there is none."""
        wanted = arguments.timestamps_of(times)
        self._check_open()
        return await self._core.queries.offsets_for_times(wanted, self._deadline(timeout))

    async def beginning_offsets(
        self, *partitions: TopicPartition | Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each of these partitions, or of all assigned ones."""
        return await self._offsets_at(partitions, EARLIEST_TIMESTAMP, timeout)

    async def end_offsets(
        self, *partitions: TopicPartition | Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset after the last message that is visible at this consumer's isolation level."""
        return await self._offsets_at(partitions, LATEST_TIMESTAMP, timeout)

    async def _offsets_at(
        self, partitions: Iterable[object], timestamp: int, timeout: float | None
    ) -> dict[TopicPartition, int]:
        self._check_open()
        wanted = arguments.partitions_of(partitions) or self._core.positions.partitions
        return await self._core.queries.offsets_at(wanted, timestamp, self._deadline(timeout))

    async def partitions_for(self, topic: str, *, timeout: float | None = None) -> tuple[PartitionInfo, ...]:
        """The partitions of a topic, by index. `UnknownTopicOrPartition` if the topic does not exist."""
        self._check_open()
        return await self._core.queries.partitions_for(topic, self._deadline(timeout))

    async def topics(self, *, timeout: float | None = None) -> frozenset[str]:
        """The names of all topics that this client is allowed to see."""
        self._check_open()
        return await self._core.queries.topic_names(self._deadline(timeout))

    # Closing

    async def close(self, *, timeout: float | None = None) -> None:
        """Commit (if auto-commit is on), leave the group and close, within `timeout` seconds (30 by default)."""
        await self._close(CLOSE_TIMEOUT_MS if timeout is None else milliseconds(timeout), is_certain=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(CLOSE_TIMEOUT_MS, is_certain=kind is None)

    async def _close(self, timeout_ms: int, *, is_certain: bool) -> None:
        """`is_certain`: the application has processed the last messages that it received."""
        if self._is_ending:
            return
        self._is_ending = True
        self._stop_collector(is_certain=is_certain)
        try:
            await self._revoke_all(timeout_ms)
        finally:
            self._is_closing = True
            self._core.interrupt()
            await self._core.close(timeout_ms=timeout_ms)

    # Running calls

    def _deadline(self, timeout: float | None) -> int:
        return self._core.client.deadline(milliseconds(timeout))

    def _check_open(self) -> None:
        if self._is_closing:
            raise errors.ClientClosed

    def _change(self, step: Callable[[], object]) -> None:
        self._check_open()
        step()

    def _inspect(self, step: Callable[[], T]) -> T:
        return step()

    def _do(self, step: Callable[[], T]) -> T:
        return step()

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[None]:
        """Admits one task at a time. A listener runs in the task that called it."""
        self._check_open()
        task = asyncio.current_task()
        if self._user is not None and self._user is not task:
            raise errors.ConcurrentUse
        outer, self._user = self._user, task
        try:
            yield
        finally:
            self._user = outer

    async def _process_pending(self) -> None:
        core = self._core
        while core.has_pending_work():
            core.collector.update_position()
            event = await core.process_pending()
            if event is None:
                return
            await self._notify_and_complete(event)

    async def _revoke_all(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        event = await self._core.revoke_all(timeout_ms=timeout_ms)
        if event is not None:
            await self._notify_and_complete(event)

    async def _notify_and_complete(self, event: Event) -> None:
        try:
            if isawaitable(returned := self._notify_listener(event)):
                await returned
        finally:
            self._core.complete(event)

    async def _wait(self, timeout_s: float) -> None:
        await self._core.wait(timeout_s)
        self._check_open()


def _now_s() -> float:
    """The loop's own time, which may be a simulated one."""
    return asyncio.get_running_loop().time()
