"""Handlers that need little more than the metadata: ApiVersions, FindCoordinator, InitProducerId."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.datapath import Cluster, partition_record, topic_id_of
from penstock.broker import handlers
from penstock.broker.handlers import api_versions, find_coordinator, init_producer_id
from penstock.broker.served_versions import unsupported_version_response
from penstock.metadata.names import OFFSETS_TOPIC
from penstock.metadata.records.topics import TopicRecord
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest

Context = Callable[..., Any]


# -- the registry


@pytest.mark.parametrize("key", handlers.SERVED, ids=lambda key: key.name)
def test_every_api_that_is_advertised_has_a_handler(key: ApiKey) -> None:
    assert callable(handlers.TABLE.handler(key))


def test_an_api_that_is_not_served_has_no_versions_and_no_handler() -> None:
    assert not handlers.TABLE.versions(ApiKey.SHARE_FETCH)
    assert not handlers.TABLE.versions(-1)
    with pytest.raises(KeyError):
        handlers.TABLE.handler(ApiKey.SHARE_FETCH)


# -- ApiVersions


def name_software(name: str, version: str = "1.0") -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


async def test_the_advertised_apis_are_the_supported_ones(broker: Any, context: Context) -> None:
    response = api_versions.handle(broker, name_software("penstock"), context(version=3))

    advertised = {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}
    assert advertised == {
        int(key): (api(key).first_version, api(key).last_version) for key in handlers.SERVED
    }
    assert advertised[ApiKey.PRODUCE] == (0, 13)
    assert [entry.api_key for entry in response.api_keys] == sorted(advertised)


async def test_features_that_start_at_0_are_returned_from_version_4_on(broker: Any, context: Context) -> None:
    older = api_versions.handle(broker, name_software("x"), context(version=3))
    newer = api_versions.handle(broker, name_software("x"), context(version=4))

    assert [feature.name for feature in older.supported_features] == ["metadata.version"]
    assert [feature.name for feature in newer.supported_features] == ["kraft.version", "metadata.version"]


@pytest.mark.parametrize("name", ["", " ", "-dash", "dash-", "two words", "a\nb", "ümlaut"])
async def test_software_without_a_proper_name_is_refused(broker: Any, context: Context, name: str) -> None:
    for request in (name_software(name), name_software("fine", name)):
        response = api_versions.handle(broker, request, context(version=3))
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert response.api_keys == []


@pytest.mark.parametrize("name", ["a", "apache-kafka-java", "librdkafka", "x.y-z.1"])
async def test_software_with_a_proper_name_is_served(broker: Any, context: Context, name: str) -> None:
    assert api_versions.handle(broker, name_software(name), context(version=3)).error_code == ErrorCode.NONE


async def test_before_version_3_there_is_no_name_to_check(broker: Any, context: Context) -> None:
    assert api_versions.handle(broker, ApiVersionsRequest(), context(version=2)).error_code == ErrorCode.NONE


def test_the_response_to_an_unknown_version_is_readable_in_version_0() -> None:
    encoded = codec(ApiVersionsResponse, 0).encode(unsupported_version_response(handlers.TABLE))

    decoded, _ = codec(ApiVersionsResponse, 0).decode(memoryview(encoded))

    assert decoded.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert len(decoded.api_keys) == len(handlers.SERVED)


# -- FindCoordinator


async def test_the_coordinator_of_a_group_leads_the_groups_partition_and_is_named_by_the_clients_listener(
    cluster: Cluster, broker: Any, context: Context
) -> None:
    cluster.add_broker(2)
    cluster.publish(
        TopicRecord(name=OFFSETS_TOPIC, topic_id=topic_id_of(OFFSETS_TOPIC)),
        partition_record(OFFSETS_TOPIC, 0, replicas=(1,)),
        partition_record(OFFSETS_TOPIC, 1, replicas=(2,)),
    )
    old = find_coordinator.handle(broker, FindCoordinatorRequest(key="g"), context(version=3))
    new = find_coordinator.handle(
        broker, FindCoordinatorRequest(coordinator_keys=["g", "h"]), context(version=4)
    )

    assert (old.error_code, old.node_id, old.host, old.port) == (ErrorCode.NONE, 2, "plaintext-2", 9002)
    assert [(found.key, found.node_id, found.host) for found in new.coordinators] == [
        ("g", 2, "plaintext-2"),  # "g" is 103 in Java's eyes, "h" is 104
        ("h", 1, "plaintext-1"),
    ]


async def test_the_first_lookup_of_a_group_coordinator_creates_the_offsets_topic(
    cluster: Cluster, broker: Any, context: Context
) -> None:
    class Creating:
        async def ask(self, request: CreateTopicsRequest, *, timeout_ms: int) -> CreateTopicsResponse:
            cluster.add_topic(request.topics[0].name, partitions=50)
            return CreateTopicsResponse(topics=[])

    broker.channel = Creating()

    found = await find_coordinator.handle(broker, FindCoordinatorRequest(key="g"), context(version=3))

    assert (found.error_code, found.node_id) == (ErrorCode.NONE, 1)


async def test_if_the_offsets_topic_cannot_be_created_the_error_says_why(
    broker: Any, context: Context
) -> None:
    class Refusing:
        async def ask(self, request: CreateTopicsRequest, *, timeout_ms: int) -> CreateTopicsResponse:
            error = ErrorCode.INVALID_REPLICATION_FACTOR
            return CreateTopicsResponse(
                topics=[CreatableTopicResult(name=request.topics[0].name, error_code=error)]
            )

    broker.channel = Refusing()

    found = await find_coordinator.handle(broker, FindCoordinatorRequest(key="g"), context(version=3))

    assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    assert "INVALID_REPLICATION_FACTOR" in found.error_message


@pytest.mark.parametrize(
    ("key_type", "error"),
    [
        (2, ErrorCode.INVALID_REQUEST),
        (9, ErrorCode.INVALID_REQUEST),
        (-1, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_other_coordinators_are_refused_for_good(
    broker: Any, context: Context, key_type: int, error: ErrorCode
) -> None:
    response = find_coordinator.handle(
        broker, FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"]), context(version=6)
    )

    (found,) = response.coordinators
    assert (found.error_code, found.node_id) == (error, -1)
    assert found.error_message
    assert not error.is_retriable


async def test_without_an_endpoint_there_is_no_coordinator_yet(
    cluster: Cluster, broker: Any, context: Context
) -> None:
    cluster.add_topic(OFFSETS_TOPIC)
    response = find_coordinator.handle(
        broker, FindCoordinatorRequest(key="g"), context(version=1, listener="ELSEWHERE")
    )

    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


# -- InitProducerId


def init(**fields: Any) -> InitProducerIdRequest:
    return InitProducerIdRequest(**{"transactional_id": None, "transaction_timeout_ms": 1000, **fields})


async def test_idempotent_producers_get_different_ids_at_epoch_0(broker: Any, context: Context) -> None:
    first = await init_producer_id.handle(broker, init(), context(version=5))
    second = init_producer_id.handle(broker, init(), context(version=0))

    assert (first.producer_id, first.producer_epoch) == (1000, 0)
    assert (second.producer_id, second.producer_epoch) == (1001, 0)


async def test_an_idempotent_producer_that_had_an_id_gets_a_new_one(broker: Any, context: Context) -> None:
    response = await init_producer_id.handle(
        broker, init(producer_id=7, producer_epoch=3), context(version=3)
    )

    assert (response.producer_id, response.producer_epoch) == (1000, 0)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 5}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": "t", "producer_id": 5}, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_an_invalid_request_is_refused(
    broker: Any, context: Context, fields: dict[str, Any], error: ErrorCode
) -> None:
    response = init_producer_id.handle(broker, init(**fields), context(version=5))

    assert (response.error_code, response.producer_id) == (error, -1)
