"""Topic names that try to leave the log directory, and other invalid admin requests.

Also run against Apache Kafka (`--broker=kafka`), except marked tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.admin import new_name
from harness.brokers import Broker
from harness.requests import ask, create_topic
from harness.wire import WireConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import create_partitions as growing
from penstock.protocol.messages import create_topics as creating
from penstock.protocol.messages import delete_topics as deleting
from penstock.protocol.messages import describe_configs as describing
from penstock.protocol.messages import incremental_alter_configs as altering
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
INT31 = 2**31 - 1
HOSTILE = (
    "../x",
    "..",
    ".",
    "",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "a\x00b",
    "a b",
    "a\n",
    "Grüße",
    "x" * 250,
    "~",
    "*",
)


@pytest.fixture
def connection(cluster: Broker) -> Iterator[WireConnection]:
    with WireConnection(cluster.port) as connection:
        yield connection


@pytest.fixture
def topic(connection: WireConnection) -> str:
    name = new_name("named")
    create_topic(connection, name, partitions=2)
    return name


@pytest.fixture(autouse=True)
def outside(cluster: Broker) -> Iterator[None]:
    """Checks that no request creates a file outside of the log directory."""
    (data,) = cluster.log_directories
    before = listing(data.parent) | listing(data.parent.parent)
    yield
    assert listing(data.parent) | listing(data.parent.parent) == before


def listing(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# -- CreateTopics


def create(connection: WireConnection, name: str, *, timeout_ms: int = 10_000, **fields: Any) -> ErrorCode:
    wanted = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []} | fields
    request = creating.CreateTopicsRequest(
        topics=[creating.CreatableTopic(name=name, **wanted)], timeout_ms=timeout_ms
    )
    (result,) = ask(connection, request, 5).topics
    error: ErrorCode = result.error_code
    return error


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_name_that_no_topic_can_have_is_refused(connection: WireConnection, name: str) -> None:
    assert create(connection, name) == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.penstock_only("Kafka's message does not fit its answer, which becomes UNKNOWN_SERVER_ERROR")
def test_the_longest_name_there_can_be_is_refused(connection: WireConnection) -> None:
    assert create(connection, "x" * 32767) == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", ["x" * 249, ".hidden", "-rf", "...", "a..b", "CON", "_", "0"])
def test_a_name_that_is_odd_but_harmless_is_taken(connection: WireConnection, name: str) -> None:
    create_topic(connection, name)
    assert create(connection, name) == ErrorCode.TOPIC_ALREADY_EXISTS
    assert delete(connection, name) == ErrorCode.NONE


def test_the_clusters_own_topic_cannot_be_created(connection: WireConnection) -> None:
    assert create(connection, "__cluster_metadata") == ErrorCode.INVALID_REQUEST


def assignments(*replicas: tuple[int, list[int]]) -> dict[str, Any]:
    return {
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [
            creating.CreatableReplicaAssignment(partition_index=index, broker_ids=nodes)
            for index, nodes in replicas
        ],
    }


def configs(*settings: tuple[str, str | None]) -> dict[str, Any]:
    return {"configs": [creating.CreatableTopicConfig(name=name, value=value) for name, value in settings]}


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"num_partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"num_partitions": -2}, ErrorCode.INVALID_PARTITIONS),
        ({"num_partitions": -(2**31)}, ErrorCode.INVALID_PARTITIONS),
        ({"num_partitions": 10_001}, ErrorCode.POLICY_VIOLATION),
        ({"num_partitions": INT31}, ErrorCode.POLICY_VIOLATION),
        ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": -2}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": 2}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": 2**15 - 1}, ErrorCode.INVALID_REPLICATION_FACTOR),
        (assignments((1, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assignments((-1, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assignments((0, [1]), (0, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assignments((0, [99])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assignments((0, [1, 1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assignments((0, [])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assignments((0, [1])) | {"num_partitions": 1}, ErrorCode.INVALID_REQUEST),
        (configs(("absent", "1")), ErrorCode.INVALID_CONFIG),
        (configs(("", "")), ErrorCode.INVALID_CONFIG),
        (configs(("retention.ms", None)), ErrorCode.INVALID_CONFIG),
        (configs(("retention.ms", "soon")), ErrorCode.INVALID_CONFIG),
        ({"timeout_ms": 0}, ErrorCode.REQUEST_TIMED_OUT),
        ({"timeout_ms": -1}, ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_a_topic_that_cannot_be_is_refused(
    connection: WireConnection, fields: dict[str, Any], error: ErrorCode
) -> None:
    assert create(connection, new_name("impossible"), **fields) == error


def test_a_topic_that_is_wanted_twice_is_not_created(connection: WireConnection) -> None:
    wanted = creating.CreatableTopic(
        name=new_name("twice"), num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )

    (result,) = ask(
        connection, creating.CreateTopicsRequest(topics=[wanted, wanted], timeout_ms=10_000), 5
    ).topics
    assert result.error_code == ErrorCode.INVALID_REQUEST


# -- Metadata, which creates topics by itself


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_metadata_request_for_an_invalid_name_creates_nothing(
    connection: WireConnection, name: str
) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)

    for _ in range(2):
        (described,) = ask(connection, request, 4).topics
        assert (described.name, described.error_code) == (name, ErrorCode.INVALID_TOPIC_EXCEPTION)


# -- DeleteTopics, CreatePartitions


def delete(connection: WireConnection, name: str) -> ErrorCode:
    request = deleting.DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000)
    (result,) = ask(connection, request, 4).responses
    error: ErrorCode = result.error_code
    return error


@pytest.mark.parametrize("name", [*HOSTILE, "absent", "__cluster_metadata", "x" * 32767], ids=ascii)
def test_a_topic_that_does_not_exist_can_neither_be_deleted_nor_grow(
    connection: WireConnection, name: str
) -> None:
    assert delete(connection, name) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert grow(connection, name, 3) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("name", "topic_id", "error"),
    [
        ("absent", b"x" * 16, ErrorCode.INVALID_REQUEST),
        (None, bytes(16), ErrorCode.INVALID_REQUEST),
        (None, b"x" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_a_topic_is_deleted_by_its_name_or_its_id(
    connection: WireConnection, name: str | None, topic_id: Any, error: ErrorCode
) -> None:
    request = deleting.DeleteTopicsRequest(
        topics=[deleting.DeleteTopicState(name=name, topic_id=topic_id)], timeout_ms=10_000
    )

    assert ask(connection, request, 6).responses[0].error_code == error


def grow(
    connection: WireConnection, name: str, count: int, *, replicas: list[list[int]] | None = None
) -> ErrorCode:
    wanted = growing.CreatePartitionsTopic(
        name=name,
        count=count,
        assignments=None
        if replicas is None
        else [growing.CreatePartitionsAssignment(broker_ids=nodes) for nodes in replicas],
    )
    request = growing.CreatePartitionsRequest(topics=[wanted], timeout_ms=10_000, validate_only=True)
    (result,) = ask(connection, request, 2).results
    error: ErrorCode = result.error_code
    return error


@pytest.mark.parametrize("count", [-1, 0, 1, 2, -(2**31)])
def test_a_topic_only_grows(connection: WireConnection, topic: str, count: int) -> None:
    assert grow(connection, topic, count) == ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize("replicas", [[], [[1], [1]], [[9]], [[1, 1]], [[]]])
def test_new_partitions_go_where_nodes_are(
    connection: WireConnection, topic: str, replicas: list[list[int]]
) -> None:
    assert grow(connection, topic, 3, replicas=replicas) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.penstock_only("Kafka answers UNKNOWN_SERVER_ERROR")
@pytest.mark.parametrize("count", [10_003, INT31])
def test_a_topic_does_not_grow_without_bound(connection: WireConnection, topic: str, count: int) -> None:
    assert grow(connection, topic, count) == ErrorCode.POLICY_VIOLATION


# -- settings


def describe(connection: WireConnection, kind: int, name: str) -> ErrorCode:
    resource = describing.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    (result,) = ask(connection, describing.DescribeConfigsRequest(resources=[resource]), 4).results
    error: ErrorCode = result.error_code
    return error


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_settings_of_an_invalid_topic(connection: WireConnection, name: str) -> None:
    assert describe(connection, TOPIC, name) == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", ["7", "../x", "-1", "one", str(2**40)])
@pytest.mark.parametrize("kind", [BROKER, BROKER_LOGGER])
def test_settings_of_another_node(connection: WireConnection, kind: int, name: str) -> None:
    assert describe(connection, kind, name) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("kind", [0, 1, 3, 33, 127, -1, -128])
def test_settings_of_an_invalid_resource_are_refused(connection: WireConnection, kind: int) -> None:
    assert describe(connection, kind, "x") == ErrorCode.INVALID_REQUEST


def alter(
    connection: WireConnection, name: str, *settings: tuple[str, int, str | None], kind: int = TOPIC
) -> ErrorCode:
    resource = altering.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            altering.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in settings
        ],
    )
    request = altering.IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)
    (result,) = ask(connection, request, 1).responses
    error: ErrorCode = result.error_code
    return error


SET, DELETE, APPEND = 0, 1, 2


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ([("retention.ms", SET, "soon")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], ErrorCode.INVALID_REQUEST),
        ([("absent", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms\x00", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("max.message.bytes", SET, str(2**31))], ErrorCode.INVALID_CONFIG),
        ([("segment.bytes", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("absent", DELETE, None)], ErrorCode.NONE),
        ([], ErrorCode.NONE),
    ],
)
def test_a_setting_that_cannot_be_is_refused(
    connection: WireConnection, topic: str, settings: list[tuple[str, int, str | None]], error: ErrorCode
) -> None:
    assert alter(connection, topic, *settings) == error


@pytest.mark.penstock_only("Kafka answers UNKNOWN_SERVER_ERROR")
@pytest.mark.parametrize(
    ("setting", "error"),
    [
        (("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
        (("retention.ms", -1, "1"), ErrorCode.INVALID_REQUEST),
        (("retention.ms", SET, "9" * 32767), ErrorCode.INVALID_CONFIG),
        (("x" * 32767, SET, "1"), ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_setting_that_is_nonsense_is_refused_by_name(
    connection: WireConnection, topic: str, setting: tuple[str, int, str | None], error: ErrorCode
) -> None:
    assert alter(connection, topic, setting) == error
