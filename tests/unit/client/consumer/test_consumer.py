"""The consumer on a scripted cluster: what real brokers do only rarely. Time is virtual."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from harness.scripted_cluster import HANG_UP, Led, ScriptedCluster, ScriptedNode
from penstock.client import errors
from penstock.client.cluster import TopicPartition
from penstock.client.consumer.aio import Consumer
from penstock.client.consumer.positions import READ_REPLICA_MS
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from penstock.protocol.types import Uuid
from penstock.records import kernel

ORDERS = TopicPartition("orders", 0)
ID = Uuid(bytes(15) + b"\x01")


class World(ScriptedCluster):
    """Two nodes and one partition, with the same records on both."""

    def __init__(self, **options: Any) -> None:
        super().__init__(node_ids=(1, 2))
        self.topics["orders"] = {0: Led(leader=1, epoch=5)}
        self.topic_ids["orders"] = ID
        self.values = list("abcdefghij")
        self.epoch = 5
        self.options = options
        self.answer(FetchRequest, self.fetch)
        self.answer(ListOffsetsRequest, self.list_offsets)

    def consume(self) -> Consumer:
        return Consumer(
            ORDERS,
            bootstrap_servers=self.bootstrap,
            network=self.network,
            clock=self.clock,
            **self.options,
        )

    def fetch(self, request: FetchRequest, node: ScriptedNode) -> Any:
        """Everything from the requested offset on; never waits for more."""
        wanted = [each for topic in request.topics for each in topic.partitions]
        if not wanted:
            return self.result(PartitionData(partition_index=0, high_watermark=len(self.values), records=b""))
        offset = wanted[0].fetch_offset
        if offset > len(self.values):
            return self.result(
                PartitionData(
                    partition_index=0,
                    error_code=ErrorCode.OFFSET_OUT_OF_RANGE,
                    high_watermark=-1,
                    records=b"",
                )
            )
        rows = [(1, None, value.encode(), ()) for value in self.values[offset:]]
        records = kernel.build_batch(rows, base_offset=offset, leader_epoch=self.epoch) if rows else b""
        data = PartitionData(partition_index=0, high_watermark=len(self.values), records=bytes(records))
        return self.after(request, self.result(data)) if not rows else self.result(data)

    @staticmethod
    async def after(request: FetchRequest, response: FetchResponse) -> FetchResponse:
        import asyncio

        await asyncio.sleep(request.max_wait_ms / 1000)
        return response

    @staticmethod
    def result(data: PartitionData) -> FetchResponse:
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=ID, partitions=[data])])

    def list_offsets(self, request: ListOffsetsRequest, node: ScriptedNode) -> ListOffsetsResponse:
        timestamp = request.topics[0].partitions[0].timestamp
        offset = 0 if timestamp == -2 else len(self.values)
        found = ListOffsetsPartitionResponse(partition_index=0, offset=offset)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=[found])])

    def run_with(self, test: Callable[[Consumer], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            async with self.consume() as consumer:
                await test(consumer)

        self.run(main)


async def take(consumer: Consumer, count: int) -> str:
    text = ""
    while len(text) < count:
        for message in await consumer.poll(60, max_records=count - len(text)):
            text += message.value.decode()
        assert text, "nothing came for a minute"
    return text


def epoch_ended(
    end_offset: int, epoch: int = 5
) -> Callable[[Any, ScriptedNode], OffsetForLeaderEpochResponse]:
    def script(request: OffsetForLeaderEpochRequest, node: ScriptedNode) -> OffsetForLeaderEpochResponse:
        assert node.id == 2
        assert request.topics[0].partitions[0].leader_epoch == 5
        result = EpochEndOffset(partition=0, leader_epoch=epoch, end_offset=end_offset)
        return OffsetForLeaderEpochResponse(
            topics=[OffsetForLeaderTopicResult(topic="orders", partitions=[result])]
        )

    return script


def move_leader(world: World) -> None:
    """Node 2 leads in epoch 6, by node 1's metadata."""
    world.topics["orders"] = {0: Led(leader=2, epoch=6)}
    world.epoch = 6

    def fetch(request: FetchRequest, node: ScriptedNode) -> Any:
        if node.id == 2:
            return world.fetch(request, node)
        return world.result(
            PartitionData(
                partition_index=0,
                error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                high_watermark=-1,
                current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=6),
                records=b"",
            )
        )

    world.answer(FetchRequest, fetch)


def test_a_moved_leader_is_followed_and_validates_the_position() -> None:
    world = World()

    async def test(consumer: Consumer) -> None:
        assert await take(consumer, 10) == "abcdefghij"
        world.answer(OffsetForLeaderEpochRequest, epoch_ended(10))
        move_leader(world)
        world.values += "kl"
        assert await take(consumer, 2) == "kl"

    world.run_with(test)
    assert len(world.nodes[2].asked_for(OffsetForLeaderEpochRequest)) == 1


def test_a_truncated_log_is_read_again_from_the_truncation() -> None:
    world = World()

    async def test(consumer: Consumer) -> None:
        assert await take(consumer, 10) == "abcdefghij"
        world.answer(OffsetForLeaderEpochRequest, epoch_ended(8))
        move_leader(world)
        world.values = [*"abcdefgh", *"XY"]
        assert await take(consumer, 2) == "XY"

    world.run_with(test)


def test_a_truncated_log_is_an_error_without_a_reset_policy() -> None:
    world = World(auto_offset_reset="none")

    async def test(consumer: Consumer) -> None:
        consumer.seek(ORDERS, 0)
        assert await take(consumer, 10) == "abcdefghij"
        world.answer(OffsetForLeaderEpochRequest, epoch_ended(8))
        move_leader(world)
        for _ in range(2):
            with pytest.raises(errors.LogTruncated, match="8"):
                await take(consumer, 1)
        consumer.seek(ORDERS, 8)
        assert await take(consumer, 1) == "i"

    world.run_with(test)


def test_a_leader_that_died_is_replaced() -> None:
    world = World()

    async def test(consumer: Consumer) -> None:
        assert await take(consumer, 10) == "abcdefghij"
        world.answer(OffsetForLeaderEpochRequest, epoch_ended(10))
        world.topics["orders"] = {0: Led(leader=2, epoch=6)}
        world.kill(1)
        world.values += "k"
        assert await take(consumer, 1) == "k"

    world.run_with(test)


def test_the_preferred_read_replica_is_used() -> None:
    world = World(client_rack="north")

    def fetch(request: FetchRequest, node: ScriptedNode) -> Any:
        if node.id == 2:
            return world.fetch(request, node)
        assert request.rack_id == "north"
        nearer = PartitionData(partition_index=0, high_watermark=10, preferred_read_replica=2, records=b"")
        return world.result(nearer)

    world.answer(FetchRequest, fetch)

    async def test(consumer: Consumer) -> None:
        assert await take(consumer, 10) == "abcdefghij"

    world.run_with(test)
    assert len(world.nodes[1].asked_for(FetchRequest)) == 1


def test_the_leader_is_used_again_if_the_replica_fails_or_after_a_time() -> None:
    world = World(client_rack="north")
    is_behind = False

    def fetch(request: FetchRequest, node: ScriptedNode) -> Any:
        if node.id == 1:
            nearer = PartitionData(
                partition_index=0, high_watermark=10, preferred_read_replica=2, records=b""
            )
            return world.fetch(request, node) if is_behind else world.result(nearer)
        if not is_behind:
            return world.fetch(request, node)
        behind = PartitionData(
            partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1, records=b""
        )
        return world.result(behind)

    world.answer(FetchRequest, fetch)

    async def test(consumer: Consumer) -> None:
        nonlocal is_behind
        assert await take(consumer, 10) == "abcdefghij"
        is_behind = True
        world.values += "k"
        assert await take(consumer, 1) == "k"
        is_behind = False
        world.values += "l"
        assert await take(consumer, 1) == "l"
        asked = len(world.nodes[1].asked_for(FetchRequest))
        assert await consumer.poll(READ_REPLICA_MS / 1000 + 60) == []
        assert len(world.nodes[1].asked_for(FetchRequest)) == asked + 1

    world.run_with(test)


def test_a_partition_without_a_leader_is_read_once_it_has_one() -> None:
    world = World(auto_offset_reset="none")
    world.topics["orders"] = {0: Led(leader=-1, epoch=4)}

    async def test(consumer: Consumer) -> None:
        consumer.seek(ORDERS, 0)
        assert await consumer.poll(5) == []
        world.topics["orders"] = {0: Led(leader=2, epoch=5)}
        assert await take(consumer, 3) == "abc"

    world.run_with(test)


def test_a_lost_fetch_session_is_replaced() -> None:
    world = World()
    answers = iter([FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])])

    def fetch(request: FetchRequest, node: ScriptedNode) -> Any:
        return next(answers, None) or world.fetch(request, node)

    world.answer(FetchRequest, fetch)

    async def test(consumer: Consumer) -> None:
        assert await take(consumer, 10) == "abcdefghij"

    world.run_with(test)
    first, second = world.nodes[1].asked_for(FetchRequest)[:2]
    assert (first.session_epoch, second.session_epoch) == (0, 0)


def test_repeated_disconnects_lose_nothing() -> None:
    world = World()
    count = 0

    def fetch(request: FetchRequest, node: ScriptedNode) -> Any:
        nonlocal count
        count += 1
        return HANG_UP if count % 3 else world.fetch(request, node)

    world.answer(FetchRequest, fetch)

    async def test(consumer: Consumer) -> None:
        assert await take(consumer, 10) == "abcdefghij"
        world.values += "klm"
        assert await take(consumer, 3) == "klm"

    world.run_with(test)


def test_a_position_beyond_the_end_is_reset() -> None:
    world = World()

    async def test(consumer: Consumer) -> None:
        consumer.seek(ORDERS, 500)
        assert await take(consumer, 2) == "ab"

    world.run_with(test)


def test_an_authorization_error_is_raised_by_every_poll() -> None:
    world = World()
    forbidden = PartitionData(
        partition_index=0, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, high_watermark=-1, records=b""
    )
    world.answer(FetchRequest, lambda request, node: world.result(forbidden))

    async def test(consumer: Consumer) -> None:
        for _ in range(2):
            with pytest.raises(errors.AuthorizationError, match="orders-0"):
                await take(consumer, 1)

    world.run_with(test)


def test_corrupt_records_are_raised_with_their_place() -> None:
    world = World()

    def fetch(request: FetchRequest, node: ScriptedNode) -> Any:
        response = world.fetch(request, node)
        data = response.responses[0].partitions[0]
        data.records = data.records[:-1] + b"!"
        return response

    world.answer(FetchRequest, fetch)

    async def test(consumer: Consumer) -> None:
        for _ in range(2):
            with pytest.raises(errors.CorruptRecords, match=r"orders-0 at offset 0.*checksum"):
                await take(consumer, 1)
        world.answer(FetchRequest, world.fetch)
        consumer.seek(ORDERS, 3)
        assert await take(consumer, 1) == "d"

    world.run_with(test)


def test_an_idle_consumer_does_not_fetch_too_often() -> None:
    world = World(fetch_max_wait_ms=500)

    async def test(consumer: Consumer) -> None:
        await take(consumer, 10)
        before = len(world.nodes[1].asked_for(FetchRequest))
        assert await consumer.poll(10) == []
        assert len(world.nodes[1].asked_for(FetchRequest)) - before <= 21

    world.run_with(test)
