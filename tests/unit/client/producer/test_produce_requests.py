"""A single batch is encoded as the codec would; unusual responses go through the codec."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.client.cluster import Cluster, Topic
from penstock.client.producer.accumulator import Line
from penstock.client.producer.produce_requests import SINGLE_VERSION, Produce, Written
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode, MalformedMessage
from penstock.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from penstock.protocol.types import Uuid
from penstock.records.producing import PartitionQueue, ProducerBatch

TOPIC_ID = Uuid(bytes(range(16)))
OTHER_ID = Uuid(bytes(16))
PARTITION = 300
PLACED = PartitionProduceResponse(index=PARTITION, base_offset=7, log_append_time_ms=5, log_start_offset=3)


@pytest.fixture
def produce() -> Produce:
    line = Line(PartitionQueue("orders", PARTITION), None)
    return Produce([(line, ProducerBatch("orders", PARTITION, None))])


def answered(partition: PartitionProduceResponse, topic_id: Uuid = TOPIC_ID, **fields: Any) -> bytes:
    topic = TopicProduceResponse(topic_id=topic_id, partition_responses=[partition])
    response = ProduceResponse(responses=[topic], **fields)
    return b"head" + codec(ProduceResponse, SINGLE_VERSION).encode(response)


def test_the_single_batch_layout_is_that_of_the_newest_version() -> None:
    assert api(ApiKey.PRODUCE).last_version == SINGLE_VERSION, "without it, single batches take the long way"


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16_382, 16_383, 16_384, 70_000])
@pytest.mark.parametrize("acks", [1, -1])
def test_one_batch_is_encoded_as_the_codec_does(produce: Produce, size: int, acks: int) -> None:
    records = memoryview(b"r" * size)
    cluster = Cluster(topics={"orders": Topic("orders", TOPIC_ID)})
    request = produce.request([records], cluster, acks=acks, timeout_ms=30_000, transactional_id=None)

    body = produce.encode_single(records, TOPIC_ID, acks=acks, timeout_ms=30_000)

    assert b"".join(body) == codec(ProduceRequest, SINGLE_VERSION).encode(request)  # type: ignore[arg-type]


def test_a_success_response_is_read_in_one_step(produce: Produce) -> None:
    produce.encode_single(memoryview(b""), TOPIC_ID, acks=-1, timeout_ms=0)

    assert produce.read_single(answered(PLACED, throttle_time_ms=9), 4) == Written(7, 5, 9)


@pytest.mark.parametrize(
    "answer",
    [
        answered(replace(PLACED, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)),
        answered(replace(PLACED, error_message="no")),
        answered(replace(PLACED, record_errors=[BatchIndexAndErrorMessage(batch_index=0)])),
        answered(replace(PLACED, current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=4))),
        answered(PLACED, node_endpoints=[NodeEndpoint(node_id=2, host="b", port=1)]),
        answered(replace(PLACED, index=PARTITION + 1)),
        answered(PLACED, topic_id=OTHER_ID),
        b"head" + codec(ProduceResponse, SINGLE_VERSION).encode(ProduceResponse(responses=[])),
    ],
)
def test_any_other_response_is_decoded(produce: Produce, answer: bytes) -> None:
    produce.encode_single(memoryview(b""), TOPIC_ID, acks=-1, timeout_ms=0)

    response = produce.read_single(answer, 4)

    assert response == codec(ProduceResponse, SINGLE_VERSION).decode(answer, 4)[0]


def test_a_truncated_response_is_malformed(produce: Produce) -> None:
    produce.encode_single(memoryview(b""), TOPIC_ID, acks=-1, timeout_ms=0)

    for end in range(4, len(answered(PLACED))):
        with pytest.raises(MalformedMessage):
            produce.read_single(answered(PLACED)[:end], 4)


@pytest.mark.parametrize("code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_an_error_is_reported_for_the_only_batch(produce: Produce, code: ErrorCode) -> None:
    produce.encode_single(memoryview(b""), TOPIC_ID, acks=-1, timeout_ms=0)

    response = produce.read_single(answered(replace(PLACED, error_code=code)), 4)
    assert isinstance(response, ProduceResponse)

    [(line, batch, result)] = produce.answers(response)
    assert (line, batch) == produce.taken[0]
    assert result is not None
    assert result.error_code is code
