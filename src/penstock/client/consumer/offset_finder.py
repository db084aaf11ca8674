"""Finds positions: committed offsets, log ends, offsets of timestamps, and truncation of a log.

`OffsetFinder` serves what `positions` need, with one task for each kind of need. So a group without a coordinator does
not delay partitions that need no group. `list_offsets` serves the application's own queries.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping

from penstock.client import errors
from penstock.client.cluster import TopicPartition
from penstock.client.cluster_client import ClusterClient
from penstock.client.consumer import lookups
from penstock.client.consumer.lookups import ListedOffset, ReadEpoch
from penstock.client.consumer.positions import LATEST, Need, PartitionState, Positions
from penstock.client.consumer.tasks import supervised
from penstock.client.consumer.topic_lookup import TOPIC_PATIENCE_MS, check_partitions
from penstock.client.group.types import Offset
from penstock.client.reachability import NAMED_MAX, why_no_leader
from penstock.protocol.apis import ApiKey
from penstock.protocol.constants import LATEST_TIMESTAMP
from penstock.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

FENCING_VERSION = 2  # of OffsetForLeaderEpoch: older versions are for brokers only

LookUpCommitted = Callable[[Collection[TopicPartition]], Awaitable[dict[TopicPartition, Offset]]]


class OffsetFinder:
    def __init__(
        self,
        client: ClusterClient,
        positions: Positions,
        *,
        isolation_level: int,
        committed: LookUpCommitted | None,
        on_found: Callable[[bool], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        """`on_found` is called after each round of lookups; with True if there is an error for the application."""
        self._client = client
        self._positions = positions
        self._isolation_level = isolation_level
        self._committed = committed
        self._on_found = on_found
        self._on_failure = on_failure
        self._wakeups = {need: asyncio.Event() for need in Need}
        self._tasks: dict[Need, asyncio.Task[None]] = {}

    def wake(self) -> None:
        steps: dict[Need, Callable[[list[PartitionState]], Awaitable[None]]] = {
            Need.RESET: self._reset,
            Need.VALIDATION: self._validate,
        }
        if self._committed is not None:
            steps[Need.COMMITTED] = self._look_up_committed
        for need, step in steps.items():
            wanted = self._positions.needing(need, self._client.now_ms())
            if wanted and (need not in self._tasks or self._tasks[need].done()):
                self._tasks[need] = supervised(
                    self._run(need, step), f"penstock-find-{need.name.lower()}", self._on_failure
                )
            self._wakeups[need].set()

    async def close(self) -> None:
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, need: Need, step: Callable[[list[PartitionState]], Awaitable[None]]) -> None:
        client, positions, wakeup = self._client, self._positions, self._wakeups[need]
        while True:
            wakeup.clear()
            wanted = positions.needing(need, client.now_ms())
            if wanted:
                asked = {state.partition: state.generation for state in wanted}
                try:
                    await step(wanted)
                except errors.PenstockError as error:
                    self._failed(asked, error)
                self._on_found(any(state.error is not None for state in wanted))
                continue
            until_ms = positions.wake_at_ms(client.now_ms())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(None if until_ms is None else until_ms / 1000):
                    await wakeup.wait()

    def _failed(self, asked: Mapping[TopicPartition, int], error: errors.PenstockError) -> None:
        """The whole request failed."""
        logger.debug("no position for %s: %s", ", ".join(map(str, asked)), error)
        if error.retriable:
            self._client.mark_stale()
        for partition, generation in asked.items():
            if error.retriable:
                self._positions.retry(partition, generation, self._client.now_ms())
            else:
                self._positions.fail(partition, generation, error)

    # One step for each need

    async def _look_up_committed(self, wanted: list[PartitionState]) -> None:
        assert self._committed is not None
        asked = {state.partition: state.generation for state in wanted}
        self._positions.take_committed(asked, await self._committed(list(asked)))

    async def _reset(self, wanted: list[PartitionState]) -> None:
        client, positions = self._client, self._positions
        generations = {state.partition: state.generation for state in wanted}
        timestamps = {state.partition: state.reset.timestamp for state in wanted if state.reset is not None}
        listed = await list_once(client, timestamps, isolation_level=self._isolation_level)
        for partition, generation in generations.items():
            result = listed.get(partition)
            if (
                result is None
                or result.error.is_retriable
                or result.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            ):
                client.mark_stale()
                positions.retry(partition, generation, client.now_ms())
            elif result.error != ErrorCode.NONE:
                positions.fail(partition, generation, errors.of(result.error, about=partition))
            elif result.offset < 0 and timestamps[partition] != LATEST_TIMESTAMP:
                # No record has this timestamp or a later one, so the next record to be written is the first (KIP-1106).
                state = positions.get(partition)
                if state is not None and state.generation == generation:
                    state.find(Need.RESET, LATEST)
            else:
                positions.take_reset(partition, generation, result.offset, result.leader_epoch)

    async def _validate(self, wanted: list[PartitionState]) -> None:
        client, positions = self._client, self._positions
        generations = {state.partition: state.generation for state in wanted}
        asked = [
            ReadEpoch(state.partition, state.fetch_epoch, state.leader.node_id, state.leader.epoch)
            for state in wanted
            if state.leader is not None
        ]
        result = set()
        for node_id, request in lookups.epoch_end_requests(asked).items():
            await client.connect(node_id)
            _, last = client.versions(node_id).get(ApiKey.OFFSET_FOR_LEADER_EPOCH, (0, 0))
            if last < FENCING_VERSION:
                for topic in request.topics:
                    for each in topic.partitions:
                        self._skip_validation(TopicPartition(topic.topic, each.partition))
                continue
            response = await client.ask(node_id, request)
            for partition, error, epoch, end_offset in lookups.read_epoch_ends(response):
                generation = generations.get(partition, -1)
                if error == ErrorCode.NONE:
                    result.add(partition)
                    positions.take_validation(partition, generation, end_offset=end_offset, epoch=epoch)
                elif not error.is_retriable:
                    result.add(partition)
                    positions.fail(partition, generation, errors.of(error, about=partition))
        for partition in generations.keys() - result:
            state = positions.get(partition)
            if state is not None and state.need is Need.VALIDATION:
                client.mark_stale()
                positions.retry(partition, generations[partition], client.now_ms())

    def _skip_validation(self, partition: TopicPartition) -> None:
        """Brokers that are too old cannot validate a position."""
        state = self._positions.get(partition)
        if state is not None and state.need is Need.VALIDATION:
            state.need = Need.NOTHING


async def list_once(
    client: ClusterClient, timestamps: Mapping[TopicPartition, int], *, isolation_level: int
) -> dict[TopicPartition, ListedOffset]:
    """One attempt; partitions without a known leader or without a response are left out."""
    client.need_leaders(timestamps)
    requests = lookups.list_offsets_requests(
        timestamps,
        client.cluster,
        isolation_level=isolation_level,
        timeout_ms=client.settings.get("request.timeout.ms"),
    )
    answers = await asyncio.gather(
        *(client.ask(node_id, request) for node_id, request in requests.items()), return_exceptions=True
    )
    listed: dict[TopicPartition, ListedOffset] = {}
    for answer in answers:
        if isinstance(answer, errors.PenstockError) and answer.retriable:
            client.mark_stale()
        elif isinstance(answer, BaseException):
            raise answer
        else:
            listed.update({each.partition: each for each in lookups.read_list_offsets(answer)})
    return listed


async def list_offsets(
    client: ClusterClient,
    timestamps: Mapping[TopicPartition, int],
    *,
    isolation_level: int,
    deadline_ms: int,
) -> dict[TopicPartition, ListedOffset]:
    """The offsets of all partitions; raises the reason if some are missing at the deadline."""
    found: dict[TopicPartition, ListedOffset] = {}
    try:
        async with asyncio.timeout_at(deadline_ms / 1000):
            await _list_all(
                client, timestamps, found, isolation_level=isolation_level, deadline_ms=deadline_ms
            )
            return found
    except TimeoutError as error:
        if isinstance(error, errors.PenstockError):
            raise
        raise _no_offsets(client, timestamps, found) from error


def _no_offsets(
    client: ClusterClient, wanted: Collection[TopicPartition], found: Collection[TopicPartition]
) -> errors.TimedOut:
    left = sorted(set(wanted) - set(found))
    if (why := why_no_leader(left, client.cluster)) is not None:
        return errors.TimedOut(f"could not list offsets: {why}")
    named = ", ".join(map(str, left[:NAMED_MAX])) + (", ..." if len(left) > NAMED_MAX else "")
    return errors.TimedOut(f"could not list offsets: the leaders of {named} did not respond in time")


async def find_ends(
    partitions: Collection[TopicPartition],
    *,
    younger_than: int | None,
    list_offsets: Callable[[Mapping[TopicPartition, int]], Awaitable[dict[TopicPartition, ListedOffset]]],
) -> dict[TopicPartition, int]:
    """The end of a bounded read: the log end, or the first message with this timestamp or a later one."""
    latest = await list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))
    ends = {partition: result.offset for partition, result in latest.items()}
    if younger_than is not None:
        younger = await list_offsets(dict.fromkeys(partitions, younger_than))
        ends |= {partition: result.offset for partition, result in younger.items() if result.offset >= 0}
    return ends


async def _list_all(
    client: ClusterClient,
    timestamps: Mapping[TopicPartition, int],
    found: dict[TopicPartition, ListedOffset],
    *,
    isolation_level: int,
    deadline_ms: int,
) -> None:
    """Fill `found`."""
    failures = 0
    names = {partition.topic for partition in timestamps}
    await client.topics(names, deadline_ms=deadline_ms, patience_ms=TOPIC_PATIENCE_MS)
    while True:
        left = {partition: at for partition, at in timestamps.items() if partition not in found}
        check_partitions(client.cluster, left)
        refused: ListedOffset | None = None
        for result in (await list_once(client, left, isolation_level=isolation_level)).values():
            if result.error == ErrorCode.NONE:
                found[result.partition] = result
            elif result.error == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
                found[result.partition] = result._replace(
                    offset=-1
                )  # the old message format has no timestamps
            elif result.error.is_retriable:
                refused = result
            else:
                raise errors.of(result.error, about=result.partition)
        if len(found) == len(timestamps):
            return
        if client.now_ms() >= deadline_ms:
            if refused is not None:
                raise errors.of(refused.error, about=refused.partition)
            raise _no_offsets(client, timestamps, found)
        client.mark_stale()
        failures += 1
        await asyncio.sleep(
            min(client.backoff.wait_ms(failures), max(deadline_ms - client.now_ms(), 0)) / 1000
        )
