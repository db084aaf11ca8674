"""The controller listener: its own APIs, forwarded requests, and what it makes of bad ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from harness.brokers import Broker, free_port
from harness.requests import ClosedByPeer, ask
from harness.wire import WireConnection
from penstock.broker.context import RequestContext
from penstock.broker.envelopes import unwrap_response, wrap_request
from penstock.protocol.apis import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.headers import encode_request_header
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest
from penstock.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from penstock.protocol.messages.list_groups import ListGroupsRequest
from penstock.protocol.messages.metadata import MetadataRequest


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory, make_broker: Any) -> Iterator[tuple[int, int]]:
    """The ports of a node for clients and for controllers."""
    port, controller_port = free_port(), free_port()
    settings = {
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "node.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
    }
    broker: Broker = make_broker(tmp_path_factory.mktemp("node"), settings=settings)
    broker.port = port
    broker.start()
    yield port, controller_port
    broker.close()
    broker.check_output()


@pytest.fixture
def to_broker(ports: tuple[int, int]) -> Iterator[WireConnection]:
    with WireConnection(ports[0]) as connection:
        yield connection


@pytest.fixture
def to_controller(ports: tuple[int, int]) -> Iterator[WireConnection]:
    with WireConnection(ports[1]) as connection:
        yield connection


def context(key: ApiKey = ApiKey.CREATE_TOPICS, version: int = 7) -> RequestContext:
    return RequestContext(key, version, 77, "a client", "192.0.2.1", "PLAINTEXT", "User:alice", None)


def creation(name: str) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    return CreateTopicsRequest(topics=[topic], timeout_ms=30_000)


def envelope(**fields: Any) -> EnvelopeRequest:
    return dataclasses.replace(wrap_request(creation("never"), context()), **fields)


def error_of(connection: WireConnection, request: EnvelopeRequest) -> ErrorCode:
    response: EnvelopeResponse = ask(connection, request, 0)
    assert response.response_data is None
    return response.error_code


def served(connection: WireConnection) -> set[int]:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    return {each.api_key for each in ask(connection, request, 4).api_keys}


def test_each_listener_lists_its_own_apis(to_broker: WireConnection, to_controller: WireConnection) -> None:
    of_brokers, of_controllers = served(to_broker), served(to_controller)

    assert {ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.LIST_GROUPS} <= of_brokers - of_controllers
    assert {
        ApiKey.ENVELOPE,
        ApiKey.VOTE,
        ApiKey.ALTER_PARTITION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
    } <= of_controllers - of_brokers
    assert {
        ApiKey.CREATE_TOPICS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
    } <= of_brokers & of_controllers


@pytest.mark.parametrize("version", range(2, 8))
def test_a_forwarded_request_is_carried_out(to_controller: WireConnection, version: int) -> None:
    inner = context(version=version)

    first, second = (
        unwrap_response(ask(to_controller, wrap_request(creation(f"t{version}"), inner), 0), inner)
        for _ in range(2)
    )

    assert [topic.error_code for topic in first.topics] == [ErrorCode.NONE]
    assert [topic.error_code for topic in second.topics] == [ErrorCode.TOPIC_ALREADY_EXISTS]


def test_an_envelope_within_an_envelope_is_refused(to_controller: WireConnection) -> None:
    inner = wrap_request(envelope(), context(ApiKey.ENVELOPE, 0))
    assert error_of(to_controller, inner) is ErrorCode.INVALID_REQUEST


def test_a_request_that_is_not_for_controllers_is_refused(to_controller: WireConnection) -> None:
    inner = wrap_request(ListGroupsRequest(), context(ApiKey.LIST_GROUPS, 4))
    assert error_of(to_controller, inner) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("principal", [None, b"", b"\0", b"\0\x07\x05User\x04bob\0\0", b"\0\0\x7f"])
def test_a_principal_that_cannot_be_read_is_refused(
    to_controller: WireConnection, principal: bytes | None
) -> None:
    request = envelope(request_principal=principal)
    assert error_of(to_controller, request) is ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE


@pytest.mark.parametrize("size", [0, 3, 17])
def test_a_client_address_of_the_wrong_size_is_refused(to_controller: WireConnection, size: int) -> None:
    request = envelope(client_host_address=bytes(size))
    assert error_of(to_controller, request) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\x13\0\x07",
        encode_request_header(ApiKey.CREATE_TOPICS, 7, 1, None),
        encode_request_header(ApiKey.CREATE_TOPICS, 7, 1, None) + b"\x7f\x01",
        encode_request_header(ApiKey.CREATE_TOPICS, 99, 1, None),
        b"\x7f\xff\0\0\0\0\0\x01\xff\xff",
    ],
    ids=["empty", "header cut off", "no body", "body cut off", "unknown version", "unknown API"],
)
def test_a_request_that_cannot_be_read_is_refused(to_controller: WireConnection, data: bytes) -> None:
    assert error_of(to_controller, envelope(request_data=data)) is ErrorCode.UNSUPPORTED_VERSION


def test_an_envelope_on_a_broker_listener_closes_the_connection(to_broker: WireConnection) -> None:
    with pytest.raises(ClosedByPeer):
        ask(to_broker, envelope(), 0)


def test_a_request_for_brokers_on_a_controller_listener_closes_the_connection(
    to_controller: WireConnection,
) -> None:
    with pytest.raises(ClosedByPeer):
        ask(to_controller, MetadataRequest(topics=[]), 12)


@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [
        (1, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (2, ErrorCode.NONE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_a_controller_listener_describes_controllers(
    to_controller: WireConnection, ports: tuple[int, int], endpoint_type: int, error: ErrorCode
) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=endpoint_type)
    response = ask(to_controller, request, 1)

    assert response.error_code is error
    if error is ErrorCode.NONE:
        assert response.endpoint_type == 2
        assert response.controller_id == 1
        assert [(node.broker_id, node.host, node.port) for node in response.brokers] == [
            (1, "127.0.0.1", ports[1])
        ]


def test_static_voters_have_kraft_version_0(to_broker: WireConnection, to_controller: WireConnection) -> None:
    """A level of 0 is not listed."""
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    for connection in (to_broker, to_controller):
        response = ask(connection, request, 4)
        assert "kraft.version" in [each.name for each in response.supported_features]
        finalized = {each.name: each.max_version_level for each in response.finalized_features}
        assert finalized.get("kraft.version", 0) == 0
        assert finalized["metadata.version"] > 0
