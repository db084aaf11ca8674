"""Every served request can be answered with an error response that names what the request named."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.broker import handlers
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.plan import plan_message
from penstock.testing.error_responses import make_error_response, set_topic_errors
from strategies.messages import messages_of

SERVED = [key for key in ApiKey if handlers.TABLE.versions(key)]


@pytest.mark.parametrize("key", SERVED, ids=lambda key: key.name)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_served_request_can_be_rejected(key: ApiKey, data: st.DataObject) -> None:
    described = api(key)
    version = data.draw(st.sampled_from(handlers.TABLE.versions(key)))
    request = data.draw(messages_of(plan_message(described.request_class(), version)))
    response = make_error_response(request, described.response_class(), version, ErrorCode.NOT_COORDINATOR)
    encoded = codec(described.response_class(), version).encode(response)
    decoded, _ = codec(described.response_class(), version).decode(encoded)
    assert decoded == response


def test_a_rejected_produce_names_its_partitions() -> None:
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1,
        topic_data=[
            TopicProduceData(name="a", partition_data=[_records(0), _records(3)]),
            TopicProduceData(name="b", partition_data=[_records(1)]),
        ],
    )

    response = _refused(request, ApiKey.PRODUCE, 9)

    assert [
        (topic.name, partition.index, partition.error_code, partition.base_offset)
        for topic in response.responses
        for partition in topic.partition_responses
    ] == [
        ("a", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
        ("a", 3, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
        ("b", 1, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
    ]


def test_a_rejected_fetch_has_no_session_error() -> None:
    partition = FetchPartition(partition=4, fetch_offset=0, partition_max_bytes=1)
    topic_id = bytes(range(16))
    request = FetchRequest(
        max_wait_ms=1, min_bytes=1, topics=[FetchTopic(topic_id=topic_id, partitions=[partition])]
    )

    response = _refused(request, ApiKey.FETCH, 13)

    assert response.error_code == ErrorCode.NONE
    (topic,) = response.responses
    assert topic.topic_id == topic_id
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
        (4, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    ]


def test_a_rejected_list_offsets_names_its_partitions() -> None:
    partition = ListOffsetsPartition(partition_index=2, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="a", partitions=[partition])])

    response = _refused(request, ApiKey.LIST_OFFSETS, 6)

    (topic,) = response.topics
    assert (topic.name, topic.partitions[0].partition_index) == ("a", 2)
    assert topic.partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_rejected_find_coordinator_names_each_key() -> None:
    response = _refused(
        FindCoordinatorRequest(key_type=0, coordinator_keys=["x", "y"]), ApiKey.FIND_COORDINATOR, 4
    )

    assert [(each.key, each.error_code) for each in response.coordinators] == [
        ("x", ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("y", ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ]


def test_metadata_with_errors_keeps_the_brokers() -> None:
    partition = MetadataResponsePartition(
        partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1], offline_replicas=[]
    )
    topic = MetadataResponseTopic(error_code=ErrorCode.NONE, name="a", partitions=[partition])
    response = MetadataResponse(brokers=[], topics=[topic])

    set_topic_errors(response, ErrorCode.LEADER_NOT_AVAILABLE)

    assert response.topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert response.topics[0].partitions == []


def _records(index: int) -> PartitionProduceData:
    return PartitionProduceData(index=index, records=b"")


def _refused(request: Any, key: ApiKey, version: int) -> Any:
    return make_error_response(request, api(key).response_class(), version, ErrorCode.NOT_LEADER_OR_FOLLOWER)
