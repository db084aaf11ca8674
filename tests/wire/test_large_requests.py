"""Requests with very many items: accepted up to a limit, refused before they fill memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.admin import new_name
from harness.brokers import Broker
from harness.requests import ClosedByPeer, ask, batch, create_topic, fetch_request, produce
from harness.wire import METADATA, WireConnection, frame
from penstock.protocol.apis import ApiKey
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.headers import encode_request_header
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest
from penstock.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from penstock.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.primitives import varint

pytestmark = pytest.mark.penstock_only("Kafka takes half a minute for some of these, and its heap for others")

MIB = 1 << 20
MANY = 20_000

NAMES = [f"absent-{number}" for number in range(MANY)]


@pytest.fixture
def connection(cluster: Broker) -> Iterator[WireConnection]:
    with WireConnection(cluster.port) as connection:
        yield connection


REQUESTS: dict[str, tuple[Any, int]] = {
    "metadata": (
        MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in NAMES], allow_auto_topic_creation=False
        ),
        9,
    ),
    "delete topics": (DeleteTopicsRequest(topic_names=NAMES, timeout_ms=10_000), 4),
    "create partitions": (
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=3, assignments=None) for name in NAMES],
            timeout_ms=10_000,
            validate_only=True,
        ),
        2,
    ),
    "create topics": (
        CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name="in/valid", num_partitions=1, replication_factor=1, assignments=[], configs=[]
                )
            ]
            * MANY,
            timeout_ms=10_000,
        ),
        4,
    ),
    "describe topics": (
        DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in NAMES], response_partition_limit=2**31 - 1
        ),
        0,
    ),
    "describe configs": (
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None)
                for name in NAMES
            ]
        ),
        2,
    ),
    "alter configs": (
        IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(resource_type=2, resource_name=name, configs=[]) for name in NAMES
            ],
            validate_only=True,
        ),
        1,
    ),
    "find coordinators": (FindCoordinatorRequest(key_type=7, coordinator_keys=NAMES), 4),
    "fetch": (fetch_request("absent", partitions=range(MANY)), 11),
}


@pytest.mark.parametrize(("request_", "version"), REQUESTS.values(), ids=REQUESTS.keys())
def test_a_request_with_very_many_items_gets_a_response(
    connection: WireConnection, request_: Any, version: int
) -> None:
    response = ask(connection, request_, version)

    assert response is not None


def test_a_request_for_millions_of_things_is_refused_before_it_fills_memory(cluster: Broker) -> None:
    before_bytes = cluster.resident_bytes()
    count = 32 * MIB // 2
    body = varint(count + 1) + b"\x01\x00" * count + b"\x00\x00\x00\x00"
    with WireConnection(cluster.port) as connection:
        connection.send(METADATA, 9, b"\x00" + body)

        assert connection.is_closed_by_peer()
    # The frame itself has to be taken in; the sixteen million topics in it would take a gigabyte.
    assert cluster.resident_bytes() - before_bytes < 100 * MIB


def test_millions_of_tagged_fields_are_refused(cluster: Broker) -> None:
    with WireConnection(cluster.port) as connection:
        connection.send(METADATA, 9, b"\x00" + b"\x01\x00\x00\x00" + varint(8 * MIB) + b"\x05\x00" * 8 * MIB)

        assert connection.is_closed_by_peer()


def test_unknown_names_in_requests_are_not_kept_in_memory(
    cluster: Broker, connection: WireConnection
) -> None:
    """Unknown names, client ids, fetch sessions: none of them may stay in memory forever."""
    topic = new_name("kept")
    create_topic(connection, topic)
    produce(connection, topic, batch(b"a"))
    for number in range(3000):
        answer = ask(connection, fetch_request(topic, session_epoch=0, max_wait_ms=0), 11)
        assert answer.error_code == ErrorCode.NONE
        if number == 1500:
            before_bytes = cluster.resident_bytes()

    assert cluster.resident_bytes() - before_bytes < 20 * MIB


def test_a_fetch_may_name_many_partitions_but_not_more_than_a_node_can_have(
    connection: WireConnection,
) -> None:
    request = fetch_request("absent", partitions=range(120_000))

    with pytest.raises(ClosedByPeer):
        ask(connection, request, 11)


def test_many_requests_for_producer_ids_get_unique_ids(cluster: Broker) -> None:
    count = 5000
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=1000, producer_id=-1, producer_epoch=-1
    )
    payload = encode_request_header(ApiKey.INIT_PRODUCER_ID, 4, 1, "wire")
    payload += codec(InitProducerIdRequest, 4).encode(request)
    with WireConnection(cluster.port) as connection, WireConnection(cluster.port) as other:
        connection.socket.sendall(frame(payload) * count)
        assert other.request(METADATA, 1, b"\x00\x00\x00\x00")
        answers = [
            codec(InitProducerIdResponse, 4).decode(connection.receive_payload(), 5)[0] for _ in range(count)
        ]

    assert {answer.error_code for answer in answers} == {ErrorCode.NONE}
    assert len({answer.producer_id for answer in answers}) == count
