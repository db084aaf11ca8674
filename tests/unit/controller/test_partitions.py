"""CreatePartitions. Error codes are those that Apache Kafka 4.3.1 gave to the same requests."""

from __future__ import annotations

import random

import pytest

from penstock.controller.outcome import RECORDS_MAX, Outcome
from penstock.controller.partitions import create_partitions
from penstock.metadata.image import MetadataImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from unit.controller.active import ActiveController
from unit.controller.clusters import after, cluster, new_topic, with_topics

IMAGE = with_topics(cluster(2), new_topic("t", 3, 1))


def wanted(name: str, count: int, assignments: list[list[int]] | None = None) -> CreatePartitionsTopic:
    return CreatePartitionsTopic(
        name=name,
        count=count,
        assignments=None
        if assignments is None
        else [CreatePartitionsAssignment(broker_ids=replicas) for replicas in assignments],
    )


def grow(*topics: CreatePartitionsTopic, validate_only: bool = False) -> Outcome[CreatePartitionsResponse]:
    request = CreatePartitionsRequest(topics=list(topics), timeout_ms=1000, validate_only=validate_only)
    return create_partitions(IMAGE, request, rng=random.Random(3))


def replicas_of(image: MetadataImage) -> list[tuple[int, ...]]:
    return [partition.replicas for partition in image.topics.by_name["t"].partitions]


def test_new_partitions_come_after_the_old_ones() -> None:
    image = after(IMAGE, grow(wanted("t", 5)))

    assert len(replicas_of(image)) == 5
    assert replicas_of(image)[:3] == replicas_of(IMAGE)


def test_new_partitions_follow_the_assignment_of_the_client() -> None:
    image = after(IMAGE, grow(wanted("t", 5, [[2], [1]])))

    assert replicas_of(image)[3:] == [(2,), (1,)]


def test_a_partition_that_is_being_moved_does_not_raise_the_replication_factor() -> None:
    active = ActiveController((1, 2, 3))
    active.create(new_topic("t", assignments={0: [1, 2]}))
    active.reassign([1, 3])
    assert active.partition().replicas == (1, 3, 2)
    request = CreatePartitionsRequest(topics=[wanted("t", 2)], timeout_ms=1000, validate_only=False)

    active.decide(lambda state: create_partitions(state.image, request, rng=random.Random(3)))

    assert len(active.partition(index=1).replicas) == 2


def test_validate_only_writes_nothing() -> None:
    outcome = grow(wanted("t", 5), validate_only=True)

    assert outcome.records == []
    assert outcome.response.results[0].error_code is ErrorCode.NONE


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (wanted("t", 3), ErrorCode.INVALID_PARTITIONS),
        (wanted("t", 1), ErrorCode.INVALID_PARTITIONS),
        (wanted("t", 0), ErrorCode.INVALID_PARTITIONS),
        (wanted("t", -1), ErrorCode.INVALID_PARTITIONS),
        (wanted("nosuch", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (wanted("../x", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (wanted("t", 5, [[1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", 4, [[1], [1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", 4, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", 4, [[9]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", 4, [[1, 1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", 4, [[1, 2]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", 4, [[]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", RECORDS_MAX + 4), ErrorCode.POLICY_VIOLATION),
        (wanted("t", 2**31 - 1), ErrorCode.POLICY_VIOLATION),
    ],
)
def test_invalid_partition_counts_are_refused(topic: CreatePartitionsTopic, error: ErrorCode) -> None:
    outcome = grow(topic)

    assert outcome.response.results[0].error_code is error
    assert outcome.records == []


def test_a_topic_twice_in_one_request_is_refused_once() -> None:
    outcome = grow(wanted("t", 5), wanted("t", 6))

    assert [result.error_code for result in outcome.response.results] == [ErrorCode.INVALID_REQUEST]
