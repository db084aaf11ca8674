"""Batches of one transaction that are on their way together: written in order, whatever the first waits for.

Whole nodes on the simulated disk, where adding a partition has to wait for the log of transactions to be safe.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.nodes import simulate
from harness.transactions import TRANSACTION
from penstock.client.connection import ClientConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.end_txn import EndTxnRequest
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.records import kernel
from penstock.records.batch import Compression
from simulator.loop import EPOCH_MS
from simulator.simulation import Simulation

SYNCED = {"log.flush.interval.messages": "1"}
IN_FLIGHT = 5
LARGE = bytes(2 << 20)  # highly compressed, and too large for the event loop


async def begin(client: ClientConnection) -> int:
    topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    await client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
    await client.ask(FindCoordinatorRequest(key="writer", key_type=TRANSACTION), version=3)
    request = InitProducerIdRequest(transactional_id="writer", transaction_timeout_ms=60_000)
    begun = await client.ask(request, version=5)
    assert (begun.error_code, begun.producer_epoch) == (ErrorCode.NONE, 0)
    return int(begun.producer_id)


async def send(
    client: ClientConnection, producer: tuple[int, int], sequence: int, *, value: bytes = b"x", version: int
) -> tuple[ErrorCode, int]:
    batch = kernel.build_batch(
        [(EPOCH_MS, None, value, ())],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        is_transactional=True,
        compression=Compression.GZIP if len(value) > 1 else Compression.NONE,
    )
    data = TopicProduceData(
        name="orders", partition_data=[PartitionProduceData(index=0, records=bytes(batch))]
    )
    request = ProduceRequest(transactional_id="writer", acks=-1, timeout_ms=10_000, topic_data=[data])
    (topic,) = (await client.ask(request, version=version)).responses
    (answer,) = topic.partition_responses
    return ErrorCode(answer.error_code), answer.base_offset


async def commit(client: ClientConnection, producer: tuple[int, int]) -> tuple[int, int]:
    request = EndTxnRequest(
        transactional_id="writer", producer_id=producer[0], producer_epoch=producer[1], committed=True
    )
    ended = await client.ask(request, version=5)
    assert ended.error_code is ErrorCode.NONE
    return ended.producer_id, ended.producer_epoch


@pytest.mark.parametrize("first", [b"x", LARGE], ids=["small", "large"])
@pytest.mark.parametrize("properties", [{}, SYNCED], ids=["written", "synced"])
def test_batches_that_are_on_their_way_together_stay_in_order(
    properties: dict[str, str], first: bytes
) -> None:
    async def main(world: Simulation) -> None:
        client = await world.connect()
        producer = (await begin(client), 0)
        offset = 0
        for _ in range(3):
            answers: Any = await asyncio.gather(
                send(client, producer, 0, value=first, version=12),
                *(send(client, producer, sequence, version=12) for sequence in range(1, IN_FLIGHT)),
            )
            assert answers == [(ErrorCode.NONE, offset + each) for each in range(IN_FLIGHT)]
            producer = await commit(
                client, producer
            )  # and the next requests arrive before all markers are written
            offset += IN_FLIGHT + 1

    simulate(main, properties=properties)


def test_batches_of_two_connections_are_written_once_and_in_order() -> None:
    """As from a producer whose connection was lost: the first request is still in progress."""

    async def main(world: Simulation) -> None:
        one, two = await world.connect(), await world.connect()
        producer = (await begin(one), 0)
        answers: Any = await asyncio.gather(
            *(send(client, producer, sequence, version=12) for client in (one, two) for sequence in range(3))
        )
        assert {answer for answer in answers if answer[0] is ErrorCode.NONE} >= {
            (ErrorCode.NONE, offset) for offset in range(3)
        }
        (partition,) = [each for each in world.node.partitions.all() if each.topic == "orders"]
        assert partition.log.end_offset == 3
        await commit(one, producer)

    simulate(main, properties=SYNCED)
