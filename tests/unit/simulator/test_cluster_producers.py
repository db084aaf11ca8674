"""The idempotent producer of the cluster simulation keeps to what brokers require of it."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.init_producer_id import InitProducerIdResponse
from penstock.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from penstock.protocol.types import Uuid
from penstock.records import kernel
from penstock.storage.errors import OutOfOrderSequence
from penstock.storage.producer_state import ProducerState
from simulator.checks.ledger import Ledger
from simulator.cluster import SimulatedCluster
from simulator.clusters.client import TopicView
from simulator.clusters.producers import IdempotentProducer

TOPIC_ID = Uuid(bytes(range(16)))
SEEDS = range(20)


class _OneLeader(IdempotentProducer):
    """Its only partition has a leader that refuses the first request, because too few replicas are in sync."""

    def __init__(self, cluster: SimulatedCluster, ledger: Ledger) -> None:
        self.requests = 0
        super().__init__(cluster, "idempotent", "orders", ledger, lambda: self.requests > 20)
        self._producers = ProducerState()
        self._end_offset = 0

    async def find_topic(self, topic: str) -> TopicView | None:
        return TopicView(TOPIC_ID, ((1, 0),))

    async def ask_any(self, request: Any, *, within_s: float = 0) -> Any:
        return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=7, producer_epoch=0)

    async def send(self, node_id: int, request: Any, *, version: int | None = None) -> asyncio.Future[Any]:
        assert isinstance(request, ProduceRequest)
        future = asyncio.get_running_loop().create_future()
        records = request.topic_data[0].partition_data[0].records
        assert records is not None
        answer = self._append(records)
        topic = TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=[answer])
        future.set_result(ProduceResponse(responses=[topic]))
        return future

    def _append(self, records: Any) -> PartitionProduceResponse:
        self.requests += 1
        if self.requests == 1:
            return _answer(ErrorCode.NOT_ENOUGH_REPLICAS)
        header = kernel.read_header(records, 0)
        try:
            self._producers.check([header])
        except OutOfOrderSequence:
            return _answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        base_offset = self._end_offset
        self._producers.update(header, base_offset=base_offset)
        self._end_offset += header.last_offset_delta + 1
        return _answer(ErrorCode.NONE, base_offset)


def _answer(error: ErrorCode, base_offset: int = -1) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=0, error_code=error, base_offset=base_offset)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_producer_whose_first_batch_was_refused_does_not_stick_on_an_out_of_order_sequence(
    seed: int,
) -> None:
    cluster = SimulatedCluster(seed)
    producer = _OneLeader(cluster, Ledger())
    producer.random = random.Random(seed)

    async def main() -> None:
        async with asyncio.timeout(60):
            await producer.run()

    cluster.run(lambda _: main())

    assert producer.has_finished()
