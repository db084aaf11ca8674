"""Builds Produce requests from batches, and reads the response of each batch. No I/O.

A request with one batch in the newest version, and its success response, have a fixed layout. They are packed and
unpacked here in one step, without the codec's objects (bench "one record, wait for it"). All others use the codec.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from penstock.client import errors
from penstock.client.cluster import Cluster, Leader, LeaderChange, TopicPartition
from penstock.client.producer.accumulator import Line
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.protocol.primitives import ONE_BYTE_VARINTS, varint
from penstock.protocol.types import ZERO_UUID, Uuid
from penstock.records.producing import ProducerBatch
from penstock.runtime.network import Part

TOPIC_ID_VERSION = 13
SINGLE_VERSION = 13  # the version with the layout of `_SINGLE_HEAD` and `_WRITTEN`
IMPLICIT_VERSION = 12  # from here on a transactional write adds its partition (KIP-890)

Taken = Sequence[tuple[Line, ProducerBatch]]


# No transactional id; acks, timeout; one topic by its id; one partition by its index. The batch follows.
_SINGLE_HEAD = struct.Struct(">xhiB16sBi")
_SINGLE_TAIL = b"\x00\x00\x00"  # no tagged fields in the partition, the topic and the request
# One topic by its id; one partition: index, error code, base offset, append time, log start offset, no record errors,
# no message, no tagged fields; no tagged fields of the topic; throttle time, and no tagged fields of the response.
_WRITTEN = struct.Struct(">B16sBihqqqIiB")
_ONE = 2  # the compact length of an array of one
_NO_FAULTS = 0x01_00_00_00  # the four bytes after the log start offset, without errors


class Written(NamedTuple):
    """The success response to a request with one batch."""

    base_offset: int
    log_append_time_ms: int
    throttle_time_ms: int


class Produce:
    """One request in flight: at most one batch of each partition. It does not keep the request, whose views of the
    batches would keep their buffers from being reused."""

    def __init__(self, taken: Taken) -> None:
        self.taken = taken
        self._by_place: dict[tuple[object, int], tuple[Line, ProducerBatch]] = {}
        self._has_all_ids = True

    def encode_single(self, records: memoryview, topic_id: Uuid, *, acks: int, timeout_ms: int) -> list[Part]:
        """The body of a request of `SINGLE_VERSION` for the only batch, outside of a transaction."""
        ((line, batch),) = self.taken
        self._by_place[topic_id, line.partition] = (line, batch)
        head = _SINGLE_HEAD.pack(acks, timeout_ms, _ONE, topic_id, _ONE, line.partition)
        length = len(records) + 1
        return [head, ONE_BYTE_VARINTS[length] if length < 128 else varint(length), records, _SINGLE_TAIL]

    def read_single(self, frame: bytes | memoryview, position: int) -> Written | ProduceResponse:
        """Its response, which begins at `position` of the frame."""
        if len(frame) - position == _WRITTEN.size:
            topics, topic_id, partitions, index, error, offset, time_ms, _, faults, throttle_ms, tags = (
                _WRITTEN.unpack_from(frame, position)
            )
            is_plain = topics == partitions == _ONE and faults == _NO_FAULTS and tags == 0
            if is_plain and error == 0 and (topic_id, index) in self._by_place:
                return Written(offset, time_ms, throttle_ms)
        return codec(ProduceResponse, SINGLE_VERSION).decode(frame, position)[0]

    def request(
        self,
        sealed: Sequence[memoryview],
        cluster: Cluster,
        *,
        acks: int,
        timeout_ms: int,
        transactional_id: str | None,
    ) -> ProduceRequest:
        by_topic: dict[str, TopicProduceData] = {}
        for (line, batch), records in zip(self.taken, sealed, strict=True):
            data = by_topic.get(line.topic)
            if data is None:
                topic = cluster.topics.get(line.topic)
                topic_id = ZERO_UUID if topic is None else topic.id
                data = by_topic[line.topic] = TopicProduceData(
                    name=line.topic, topic_id=topic_id, partition_data=[]
                )
            data.partition_data.append(PartitionProduceData(index=line.partition, records=records))
            # A response names topics as the request did, by name or by id.
            self._by_place[line.topic, line.partition] = (line, batch)
            self._by_place[data.topic_id, line.partition] = (line, batch)
        self._has_all_ids = all(data.topic_id != ZERO_UUID for data in by_topic.values())
        return ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=list(by_topic.values()),
        )

    def version(self, newest: int, *, is_explicit: bool) -> int:
        """The version to send, given the broker's newest. Transactions before version 2 stay below the version that
        adds partitions implicitly."""
        if not self._has_all_ids:
            newest = min(newest, TOPIC_ID_VERSION - 1)
        return min(newest, IMPLICIT_VERSION - 1) if is_explicit else newest

    def answers(
        self, response: ProduceResponse
    ) -> Iterator[tuple[Line, ProducerBatch, PartitionProduceResponse | None]]:
        """The response of each batch; None if it is missing."""
        unanswered = {id(batch): (line, batch) for line, batch in self.taken}
        for topic in response.responses:
            name: object = topic.name or topic.topic_id
            for result in topic.partition_responses:
                found = self._by_place.get((name, result.index))
                if found is not None and unanswered.pop(id(found[1]), None) is not None:
                    yield *found, result
        for line, batch in unanswered.values():
            yield line, batch, None


def leader_hint(line: Line, result: PartitionProduceResponse) -> LeaderChange | None:
    """The new leader of the partition, if the response names it (KIP-951)."""
    leader = result.current_leader
    if leader.leader_id < 0 or leader.leader_epoch < 0:
        return None
    return LeaderChange(
        TopicPartition(line.topic, line.partition), Leader(leader.leader_id, leader.leader_epoch)
    )


def record_errors(result: Any, error: errors.PenstockError, place: str) -> dict[int, Exception] | None:
    """Errors of the records that caused the rejection of a batch; the other records share one (KIP-467)."""
    if not result.record_errors:
        return None
    found: dict[int, Exception] = {}
    for each in result.record_errors:
        message = each.batch_index_error_message or result.error_message
        code = result.error_code if len(result.record_errors) == 1 else ErrorCode.INVALID_RECORD
        found[each.batch_index] = errors.of(code, message, about=place)
    error.detail = error.detail or "other records of the same batch were rejected, and this one with them"
    return found
