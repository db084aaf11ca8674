"""The event loop never reads a page that is not in memory; workers do, and the request continues when they are done.

The disk of the node reports every read that has to wait for it. Outside of a worker it would block all clients.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from harness.datapath import NODE_ID, Cluster, DataNode, make_batch, make_context
from harness.fetching import NOW, fetch, only, values
from harness.partition_transactions import end, write
from penstock.broker.handlers import fetch as fetching
from penstock.broker.handlers import list_offsets, produce
from penstock.broker.transaction_markers import LocalMarkers
from penstock.coordinator.txn.transaction import TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.records.control import TxnMarkerEntry
from penstock.records.message_set import read_message_set
from penstock.runtime import Runtime
from penstock.runtime.clock import SystemClock
from penstock.storage import pages
from penstock.storage.errors import DirectoryOffline
from penstock.storage.settings import LogSettings
from simulator.disk import SimulatedDisk, SimulatedFile
from simulator.workers import SimulatedWorkers

SEGMENTS = LogSettings(segment_bytes=20_000, index_interval_bytes=500)
BATCHES = 300
VALUE = b"x" * 200


class World:
    """A node with a log of many segments that are not in memory."""

    def __init__(self) -> None:
        self.disk, self.rng = SimulatedDisk(), random.Random(1)
        self.workers = SimulatedWorkers(self.rng)
        self.stalls: list[str] = []
        """Files for which the event loop had to wait."""
        self.cluster = Cluster()
        self.cluster.add_broker(NODE_ID)
        self.cluster.add_topic("orders", partitions=2)

    async def start(self) -> None:
        nothing: Any = None
        runtime = Runtime(SystemClock(), self.rng, self.disk, nothing, self.workers)
        self.node = DataNode(self.cluster, ["/data"], runtime)
        await self.node.start()
        for index in range(2):
            self.node.partition(index=index).log.settings = SEGMENTS

    def fill(self) -> None:
        for number in range(BATCHES):
            batch = make_batch(VALUE, timestamp=NOW + number)
            self.node.partition().append_as_leader(batch, acks=1, now_ms=NOW)

    async def restart(self) -> None:
        """Stop and start again on a machine that was rebooted."""
        await self.node.stop()
        self.stalls.clear()
        await self.start()
        self.evict()

    def evict(self) -> None:
        self.disk.evict()
        self.disk.on_cold_read = self._note_cold_read

    def _note_cold_read(self, path: str) -> None:
        if not self.workers.is_working:
            self.stalls.append(path)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.start()
    world.fill()
    world.evict()
    yield world
    world.disk.on_cold_read = None
    world.disk.heal()
    await world.node.stop()
    assert world.stalls == []


async def ask_fetch(world: World, offset: int, *, version: int = 12, **fields: Any) -> Any:
    request = fetch(("orders", 0, offset), **fields)
    response = fetching.handle(world.node.broker, request, make_context(version))
    assert isinstance(response, asyncio.Future), "cold, so it cannot be answered at once"
    return only(await response)


@pytest.mark.parametrize("max_bytes", [1, 1000, 1 << 20])
@pytest.mark.parametrize("offset", [0, 1, 100, 155, BATCHES - 1])
async def test_a_fetch_of_cold_pages_does_not_block_the_loop(
    world: World, offset: int, max_bytes: int
) -> None:
    data = await ask_fetch(world, offset, partition_max_bytes=max_bytes)

    assert set(values(data)) == {VALUE}
    response = fetching.handle(world.node.broker, fetch(("orders", 0, offset)), make_context(12))
    assert only(response).records, "warm by now, so it is answered at once"


@pytest.mark.parametrize("version", [0, 3])
async def test_an_old_consumer_far_behind_does_not_stop_the_loop(world: World, version: int) -> None:
    data = await ask_fetch(world, 100, version=version, partition_max_bytes=2000)

    assert [record.value for record in read_message_set(data.records).records] == [VALUE] * 7


@pytest.mark.parametrize("version", [3, 12])
async def test_aborted_transactions_that_are_not_in_memory_do_not_stop_the_loop(
    world: World, version: int
) -> None:
    partition = world.node.partition()
    for number in range(50):
        write(partition, 7, number)
        end(partition, 7, is_commit=False)
    world.fill()
    world.evict()

    data = await ask_fetch(world, BATCHES, version=version, isolation_level=1, partition_max_bytes=2000)

    if version == 12:
        assert (data.aborted_transactions[0].producer_id, data.aborted_transactions[0].first_offset) == (
            7,
            300,
        )
    else:
        assert data.error_code == ErrorCode.NONE


async def test_a_fetch_continues_to_wait_for_bytes_after_its_pages_were_loaded(world: World) -> None:
    await world.restart()
    request = fetch(("orders", 0, BATCHES - 1), min_bytes=500, max_wait_ms=600_000)
    response = fetching.handle(world.node.broker, request, make_context(12))
    assert isinstance(response, asyncio.Future)
    while not world.node.partition().purgatory.fetches:  # until it has loaded its pages
        await asyncio.sleep(0)

    await append(world, VALUE)

    assert values(only(await response)) == [VALUE, VALUE]


@pytest.mark.parametrize(
    ("timestamp", "offset"), [(NOW + 150, 150), (NOW + BATCHES, -1), (-3, BATCHES - 1), (NOW - 1, 0)]
)
async def test_a_lookup_by_time_does_not_stop_the_loop(world: World, timestamp: int, offset: int) -> None:
    await world.restart()
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=[wanted])])

    response = list_offsets.handle(world.node.broker, request, make_context(7))
    assert not isinstance(response, list_offsets.ListOffsetsResponse)
    (answer,) = (await response).topics[0].partitions

    assert (answer.error_code, answer.offset) == (ErrorCode.NONE, offset)


async def append(world: World, value: bytes, **options: Any) -> list[tuple[ErrorCode, int]]:
    data = [PartitionProduceData(index=index, records=make_batch(value, **options)) for index in range(2)]
    request = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name="orders", partition_data=data)]
    )
    response: Any = produce.handle(world.node.broker, request, make_context(9))
    if isinstance(response, asyncio.Future):
        response = await response
    return [(each.error_code, each.base_offset) for each in response.responses[0].partition_responses]


async def test_the_first_append_after_a_start_does_not_stop_the_loop(world: World) -> None:
    await world.restart()

    assert await append(world, b"first") == [(ErrorCode.NONE, BATCHES), (ErrorCode.NONE, 0)]
    assert await append(world, b"second") == [(ErrorCode.NONE, BATCHES + 1), (ErrorCode.NONE, 1)]


async def test_batches_that_are_sent_again_after_a_start_are_found_without_stopping_the_loop(
    world: World,
) -> None:
    now_ms = world.node.runtime.clock.wall_ms()  # or the producer would have expired
    producer = {"producer_id": 7, "producer_epoch": 0, "timestamp": now_ms}
    for sequence in range(5):
        await append(world, VALUE, base_sequence=sequence, **producer)
    await world.restart()

    for sequence in range(5):
        outcome = await append(world, VALUE, base_sequence=sequence, **producer)
        assert outcome == [(ErrorCode.NONE, BATCHES + sequence), (ErrorCode.NONE, sequence)]


async def test_a_marker_after_a_start_does_not_stop_the_loop(world: World) -> None:
    write(world.node.partition(), 7, 0)
    await world.restart()
    nothing: Any = None
    outcome: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

    LocalMarkers(world.node.partitions, nothing, world.node.runtime).write(
        TxnMarkerEntry(7, 0, 0, True, 1),
        [TopicPartition("orders", 0)],
        lambda _, error: outcome.set_result(error),
    )

    assert await outcome == ErrorCode.NONE
    assert world.node.partition().last_stable_offset == BATCHES + 2


async def test_retention_does_not_stop_the_loop(world: World) -> None:
    await world.restart()
    log = world.node.partition().log
    log.settings = LogSettings(segment_bytes=20_000, retention_ms=1000, file_delete_delay_ms=0)

    assert await world.node.logs.enforce_retention() > 3


@pytest.mark.parametrize("version", [3, 12])
@pytest.mark.parametrize("suffix", [".log", ".index"])
async def test_an_error_while_pages_are_loaded_takes_the_directory_offline(
    world: World, version: int, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = next(path for path in world.disk.paths() if path.endswith(suffix) and "000000000" in path)
    world.disk.fail(path, errno.EIO, operations=["read"])

    data = await ask_fetch(world, 10, version=version, partition_max_bytes=1000)

    expected = ErrorCode.KAFKA_STORAGE_ERROR if version == 12 else ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (data.error_code, data.records) == (expected, b"")
    assert world.node.partition().is_offline
    (complaint,) = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert complaint.startswith(
        f"log directory /data is offline: Input/output error (EIO) while reading {path}"
    )


async def test_an_error_while_the_index_is_read_for_an_append_refuses_it(world: World) -> None:
    await world.restart()
    world.disk.fail("/data/orders-0/", errno.EIO, operations=["read"])

    outcome = await append(world, b"first")

    assert outcome[0] == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert world.node.partition().is_offline


async def test_a_partition_that_fails_while_another_is_loaded_does_not_fail_the_fetch(world: World) -> None:
    batch = make_batch(b"a", timestamp=NOW)
    world.node.partition(index=1).append_as_leader(batch, acks=1, now_ms=NOW)
    request = fetch(("orders", 1, 0), ("orders", 0, 0), min_bytes=1 << 30, max_wait_ms=60_000)
    waiting = fetching.handle(world.node.broker, request, make_context(12))
    assert isinstance(waiting, asyncio.Future)

    world.node.partition(index=1).go_offline()

    response = await waiting
    assert values(response.responses[0].partitions[1])[0] == VALUE


async def test_an_error_during_a_lookup_by_time_takes_the_directory_offline(world: World) -> None:
    await world.restart()
    world.disk.fail("/data/orders-0/", errno.EIO, operations=["read"])
    wanted = ListOffsetsPartition(partition_index=0, timestamp=NOW)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=[wanted])])

    response: Any = list_offsets.handle(world.node.broker, request, make_context(7))
    (answer,) = (await response).topics[0].partitions

    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert isinstance(world.node.logs.directories[0].io.offline, DirectoryOffline)


async def write_marker(world: World) -> ErrorCode:
    nothing: Any = None
    outcome: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    LocalMarkers(world.node.partitions, nothing, world.node.runtime).write(
        TxnMarkerEntry(7, 0, 0, True, 1),
        [TopicPartition("orders", 0)],
        lambda _, error: outcome.set_result(error),
    )
    return await outcome


async def test_requests_end_even_if_their_pages_are_evicted_again_and_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(world.node.partition(), 7, 0)
    await world.restart()
    monkeypatch.setattr(SimulatedFile, "is_cached", lambda *_, **__: False)

    assert await write_marker(world) == ErrorCode.NONE
    assert (await append(world, b"next"))[0] == (ErrorCode.NONE, BATCHES + 2)
    assert set(values(await ask_fetch(world, 100, partition_max_bytes=1000))) == {VALUE}
    world.stalls.clear()  # after several loads, waiting for the disk is all that is left


async def test_a_bug_in_a_load_fails_the_requests_that_wait_for_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They waited forever, and produce requests held their connection."""
    write(world.node.partition(), 7, 0)
    await world.restart()

    def broken(_: Any) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(pages, "load", broken)

    assert await write_marker(world) == ErrorCode.UNKNOWN_SERVER_ERROR
    with pytest.raises(ValueError, match="a bug"):
        await append(world, b"next")
    with pytest.raises(ValueError, match="a bug"):
        await ask_fetch(world, 100)
