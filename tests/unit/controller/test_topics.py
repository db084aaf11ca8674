"""Creating and deleting topics. Error codes are those that Apache Kafka 4.3.1 gave to the same requests."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from penstock.config.broker import BrokerSettings
from penstock.controller.outcome import RECORDS_MAX, Outcome
from penstock.controller.topics import automatic_topics, create_topics, delete_topics
from penstock.metadata.directories import UNASSIGNED
from penstock.metadata.errors import Refused
from penstock.metadata.image import MetadataImage
from penstock.metadata.records import ConfigRecord, PartitionRecord, TopicRecord
from penstock.metadata.resources import topic_resource
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from penstock.protocol.types import ZERO_UUID, Uuid
from unit.controller.clusters import SETTINGS, after, cluster, new_topic, node_uuid, with_topics


def create(
    image: MetadataImage,
    *wanted: CreatableTopic,
    validate_only: bool = False,
    settings: BrokerSettings = SETTINGS,
) -> Outcome[CreateTopicsResponse]:
    request = CreateTopicsRequest(topics=list(wanted), validate_only=validate_only)
    return create_topics(image, request, settings=settings, rng=random.Random(7))


def only(outcome: Outcome[CreateTopicsResponse]) -> CreatableTopicResult:
    (result,) = outcome.response.topics
    return result


def test_a_topic_is_created_with_its_settings_before_its_partitions() -> None:
    outcome = create(cluster(), new_topic("orders", 2, 1, configs={"retention.ms": "1000"}))

    result = only(outcome)
    assert result.error_code is ErrorCode.NONE
    assert (result.num_partitions, result.replication_factor) == (2, 1)
    kinds = [type(record) for record in outcome.records]
    assert kinds == [TopicRecord, ConfigRecord, PartitionRecord, PartitionRecord]
    image = after(cluster(), outcome)
    orders = image.topics.by_name["orders"]
    assert orders.topic_id == result.topic_id != ZERO_UUID
    assert [partition.leader for partition in orders.partitions] == [1, 1]
    assert orders.partitions[0].directories == (node_uuid(1, "disk"),)
    assert image.settings_of(topic_resource("orders")) == {"retention.ms": "1000"}


def test_the_response_contains_all_settings_and_their_sources() -> None:
    result = only(create(cluster(), new_topic("orders", 1, 1, configs={"retention.ms": "1000"})))

    assert result.configs is not None
    described = {config.name: (config.value, config.config_source) for config in result.configs}
    assert described["retention.ms"] == ("1000", 1)
    assert described["cleanup.policy"] == ("delete", 5)
    assert [config.name for config in result.configs] == sorted(described)


def test_defaults_are_the_brokers() -> None:
    settings = BrokerSettings.load({"node.id": "1", "num.partitions": "3", "default.replication.factor": "2"})

    result = only(create(cluster(2), new_topic("orders"), settings=settings))

    assert (result.num_partitions, result.replication_factor) == (3, 2)


def test_validate_only_returns_the_same_response_and_writes_nothing() -> None:
    outcome = create(cluster(), new_topic("orders", 3, 1), validate_only=True)

    assert outcome.records == []
    assert only(outcome).error_code is ErrorCode.NONE
    assert only(outcome).num_partitions == 3


def test_one_invalid_topic_does_not_affect_the_others() -> None:
    outcome = create(cluster(), new_topic("../x", 1, 1), new_topic("orders", 1, 1))

    assert [topic.error_code for topic in outcome.response.topics] == [
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NONE,
    ]
    assert list(after(cluster(), outcome).topics.by_name) == ["orders"]


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a b", "x" * 250])
def test_a_name_that_no_topic_can_have(name: str) -> None:
    assert only(create(cluster(), new_topic(name, 1, 1))).error_code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_topic_that_exists() -> None:
    image = with_topics(cluster(), new_topic("a.b", 1, 1))

    assert only(create(image, new_topic("a.b", 1, 1))).error_code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_name_that_looks_like_another_in_metrics() -> None:
    image = with_topics(cluster(), new_topic("a.b", 1, 1))

    result = only(create(image, new_topic("a_b", 1, 1)))

    assert result.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "collides with the existing topic 'a.b'" in (result.error_message or "")


def test_two_new_names_that_look_alike_are_both_created_as_in_kafka() -> None:
    image = after(cluster(), create(cluster(), new_topic("c.d", 1, 1), new_topic("c_d", 1, 1)))

    assert set(image.topics.by_name) == {"c.d", "c_d"}


def test_a_name_twice_in_one_request_is_refused_once() -> None:
    outcome = create(cluster(), new_topic("dup", 1, 1), new_topic("other", 1, 1), new_topic("dup", 2, 1))

    codes = {topic.name: topic.error_code for topic in outcome.response.topics}
    assert codes == {"dup": ErrorCode.INVALID_REQUEST, "other": ErrorCode.NONE}
    assert len(outcome.response.topics) == 2


def test_the_metadata_log_is_no_topic_to_be_created() -> None:
    result = only(create(cluster(), new_topic("__cluster_metadata", 1, 1)))

    assert result.error_code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("partition_count", "replication_factor", "error"),
    [
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, -2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (0, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-2, 1, ErrorCode.INVALID_PARTITIONS),
        (RECORDS_MAX + 1, 1, ErrorCode.POLICY_VIOLATION),
        (2**31 - 1, 1, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_invalid_counts_are_refused(partition_count: int, replication_factor: int, error: ErrorCode) -> None:
    assert only(create(cluster(), new_topic("t", partition_count, replication_factor))).error_code is error


def test_a_request_may_ask_for_as_many_records_as_kafka_allows() -> None:
    outcome = create(cluster(), new_topic("t", RECORDS_MAX - 1, 1), new_topic("u", 1, 1))

    assert [topic.error_code for topic in outcome.response.topics] == [
        ErrorCode.NONE,
        ErrorCode.POLICY_VIOLATION,
    ]


def test_a_request_that_names_too_many_topics_is_not_looked_at() -> None:
    many = [new_topic("../x")] * (RECORDS_MAX + 1)

    with pytest.raises(Refused) as refused:
        create(cluster(), *many)
    assert refused.value.error is ErrorCode.POLICY_VIOLATION

    with pytest.raises(Refused):
        delete(*[by_name("nosuch")] * (RECORDS_MAX + 1))


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (new_topic("t", 1, -1, assignments={0: [1]}), ErrorCode.INVALID_REQUEST),
        (new_topic("t", -1, 1, assignments={0: [1]}), ErrorCode.INVALID_REQUEST),
        (new_topic("t", assignments={0: [1], 2: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (new_topic("t", assignments={1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (new_topic("t", assignments={0: [1, 1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (new_topic("t", assignments={0: [7]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (new_topic("t", assignments={0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (new_topic("t", assignments={0: [1], 1: [1, 2]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_invalid_assignments_are_refused(topic: CreatableTopic, error: ErrorCode) -> None:
    assert only(create(cluster(2), topic)).error_code is error


def test_a_partition_assigned_twice() -> None:
    topic = new_topic("t", assignments={0: [1]})
    topic.assignments *= 2

    assert only(create(cluster(), topic)).error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_replicas_follow_the_assignment_of_the_client() -> None:
    image = with_topics(cluster(3), new_topic("t", assignments={1: [3, 1], 0: [2, 3]}))

    assert [partition.replicas for partition in image.topics.by_name["t"].partitions] == [(2, 3), (3, 1)]
    assert [partition.leader for partition in image.topics.by_name["t"].partitions] == [2, 3]


@pytest.mark.parametrize(
    "configs", [{"no.such": "1"}, {"retention.ms": "abc"}, {"segment.bytes": "1"}, {"retention.ms": None}]
)
def test_invalid_settings_are_refused(configs: dict[str, str | None]) -> None:
    assert (
        only(create(cluster(), new_topic("t", 1, 1, configs=configs))).error_code is ErrorCode.INVALID_CONFIG
    )


def test_a_node_with_several_disks_chooses_itself() -> None:
    image = cluster()
    node = image.brokers[1]
    two_disks = replace(node, directories=(*node.directories, node_uuid(1, "disk two")))
    image = replace(image, brokers={1: two_disks})

    partition = with_topics(image, new_topic("t", 1, 1)).topics.by_name["t"].partitions[0]

    assert partition.directories == (UNASSIGNED,)


def test_automatic_topics_have_the_defaults_and_internal_topics_their_settings() -> None:
    request = automatic_topics(
        ["orders", "__consumer_offsets", "__transaction_state"], SETTINGS, broker_count=5
    )

    orders, offsets, transactions = request.topics
    assert (orders.num_partitions, orders.replication_factor, orders.configs) == (-1, -1, [])
    assert offsets.num_partitions == 50
    assert {config.name: config.value for config in offsets.configs} == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
    assert {config.name: config.value for config in transactions.configs}["min.insync.replicas"] == "2"


@pytest.mark.parametrize(("broker_count", "replicas"), [(0, 1), (1, 1), (2, 2), (3, 3), (9, 3)])
def test_a_coordinators_topic_has_as_many_replicas_as_there_are_brokers_up_to_the_default(
    broker_count: int, replicas: int
) -> None:
    request = automatic_topics(["__consumer_offsets"], SETTINGS, broker_count=broker_count)

    assert request.topics[0].replication_factor == replicas


def test_a_coordinators_topic_has_the_replicas_that_were_asked_for_even_if_there_are_too_few_brokers() -> (
    None
):
    settings = BrokerSettings.load({"offsets.topic.replication.factor": "3"})

    request = automatic_topics(["__consumer_offsets"], settings, broker_count=1)

    assert request.topics[0].replication_factor == 3


# Deleting

IMAGE = with_topics(
    cluster(), new_topic("a", 1, 1), new_topic("b", 2, 1), new_topic("__consumer_offsets", 1, 1)
)
A = IMAGE.topics.by_name["a"].topic_id


def by_name(name: str) -> DeleteTopicState:
    return DeleteTopicState(name=name, topic_id=ZERO_UUID)


def by_id(topic_id: Uuid) -> DeleteTopicState:
    return DeleteTopicState(name=None, topic_id=topic_id)


def delete(
    *wanted: DeleteTopicState, is_enabled: bool = True, version: int = 6
) -> Outcome[DeleteTopicsResponse]:
    return delete_topics(IMAGE, wanted, is_enabled=is_enabled, version=version)


def errors(outcome: Outcome[DeleteTopicsResponse]) -> list[ErrorCode]:
    return [result.error_code for result in outcome.response.responses]


def test_topics_are_deleted_by_name_and_by_id() -> None:
    outcome = delete(by_id(A), by_name("b"), by_name("__consumer_offsets"))

    assert errors(outcome) == [ErrorCode.NONE] * 3
    assert outcome.response.responses[0] == DeletableTopicResult(name="a", topic_id=A)
    assert after(IMAGE, outcome).topics.by_name == {}


def test_an_unknown_topic_cannot_be_deleted() -> None:
    outcome = delete(
        by_name("nosuch"), by_id(Uuid(b"x" * 16)), by_name("../x"), by_name("__cluster_metadata")
    )

    assert errors(outcome) == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert outcome.records == []


@pytest.mark.parametrize(
    "wanted",
    [
        [DeleteTopicState(name="a", topic_id=A)],
        [by_id(ZERO_UUID)],
        [by_name("a"), by_name("a")],
        [by_id(A), by_id(A)],
        [by_name("a"), by_id(A)],
        [by_name("nosuch"), by_name("nosuch")],
    ],
)
def test_an_ambiguous_deletion_deletes_no_topic(wanted: list[DeleteTopicState]) -> None:
    outcome = delete(*wanted)

    assert set(errors(outcome)) == {ErrorCode.INVALID_REQUEST}
    assert outcome.records == []


@pytest.mark.parametrize(
    ("version", "error"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)]
)
def test_deletion_can_be_switched_off(version: int, error: ErrorCode) -> None:
    outcome = delete(by_name("a"), is_enabled=False, version=version)

    assert errors(outcome) == [error]
    assert outcome.records == []
