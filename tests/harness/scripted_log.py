"""Partition logs for a scripted cluster, with a leader's rules for batches of idempotent producers.

It keeps records, not bytes, and remembers the last five batches of each producer, as Kafka does. Tests inject faults
around `take`: before it (the request is lost), after it (the response is lost), or instead of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from oracle.records import batches as reference
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from penstock.records.batch import BatchHeader, Record

REMEMBERED = 5


@dataclass
class _Writer:
    epoch: int
    batches: list[tuple[int, int, int]] = field(default_factory=list)
    """First and last sequence number and base offset of the last five batches."""


@dataclass
class ScriptedLog:
    records: list[Record] = field(default_factory=list)
    headers: list[BatchHeader] = field(default_factory=list)
    writers: dict[int, _Writer] = field(default_factory=dict)
    batch_bytes_max: int = 1 << 30

    @property
    def values(self) -> list[str]:
        return [(record.value or b"").decode() for record in self.records]

    def take(self, batch: bytes) -> tuple[ErrorCode, int]:
        """The error code and the base offset."""
        header = reference.check_batch(batch)
        if header.size_bytes > self.batch_bytes_max:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        if header.has_producer_id:
            known = self._look_up(header)
            if known is not None:
                return known
        offset = len(self.records)
        self.records += reference.iterate_records(batch)
        self.headers.append(header)
        if header.has_producer_id:
            writer = self.writers[header.producer_id]
            last = header.base_sequence + header.record_count - 1
            writer.batches = [*writer.batches, (header.base_sequence, last, offset)][-REMEMBERED:]
        return ErrorCode.NONE, offset

    def _look_up(self, header: BatchHeader) -> tuple[ErrorCode, int] | None:
        """The result for a batch that is not the next one."""
        writer = self.writers.get(header.producer_id)
        if writer is None:
            writer = self.writers[header.producer_id] = _Writer(header.producer_epoch)
            return None
        if header.producer_epoch < writer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if header.producer_epoch > writer.epoch:
            if header.base_sequence != 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            writer.epoch, writer.batches = header.producer_epoch, []
            return None
        last = header.base_sequence + header.record_count - 1
        for first_seen, last_seen, offset in writer.batches:
            if (first_seen, last_seen) == (header.base_sequence, last):
                return ErrorCode.NONE, offset
        expected = writer.batches[-1][1] + 1 if writer.batches else 0
        if header.base_sequence != expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        return None


class ScriptedLogs:
    """All partitions of a cluster, and the scripts for Produce and InitProducerId."""

    def __init__(self) -> None:
        self.partitions: dict[tuple[str, int], ScriptedLog] = {}
        self.next_producer_id = 100

    def __getitem__(self, place: tuple[str, int]) -> ScriptedLog:
        return self.partitions.setdefault(place, ScriptedLog())

    def produce(self, request: ProduceRequest, node: Any) -> ProduceResponse:
        return self._respond(
            request, lambda topic, data: self._append(topic, data.index, bytes(data.records or b""))
        )

    def refuse(self, request: ProduceRequest, code: ErrorCode, **more: Any) -> ProduceResponse:
        """The same error for every partition."""
        return self._respond(
            request,
            lambda topic, data: PartitionProduceResponse(
                index=data.index, error_code=code, base_offset=-1, **more
            ),
        )

    def _respond(
        self, request: ProduceRequest, answer: Callable[[str, Any], PartitionProduceResponse]
    ) -> ProduceResponse:
        return ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[answer(topic.name, data) for data in topic.partition_data],
                )
                for topic in request.topic_data
            ]
        )

    def init_producer_id(self, request: InitProducerIdRequest, node: Any) -> InitProducerIdResponse:
        self.next_producer_id += 1
        return InitProducerIdResponse(producer_id=self.next_producer_id, producer_epoch=0)

    def _append(self, topic: str, index: int, batch: bytes) -> PartitionProduceResponse:
        code, offset = self[topic, index].take(batch)
        return PartitionProduceResponse(index=index, error_code=code, base_offset=offset)
