"""Reassignments: start, complete, cancel, change of the replication factor."""

from __future__ import annotations

import pytest

from penstock.controller.reassignment import alter_partition_reassignments, list_partition_reassignments
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from unit.controller.active import ActiveController
from unit.controller.clusters import new_topic


def four_nodes(replicas: list[int] | None = None, **configs: str | None) -> ActiveController:
    active = ActiveController((1, 2, 3, 4))
    active.create(new_topic("t", assignments={0: replicas or [1, 2, 3]}, configs=configs))
    return active


def test_new_replicas_are_added_before_old_ones_are_removed() -> None:
    active = four_nodes()

    assert active.reassign([4, 2, 3]).error_code is ErrorCode.NONE

    partition = active.partition()
    assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == (
        (4, 2, 3, 1),
        (4,),
        (1,),
    )
    assert (partition.leader, partition.isr, partition.leader_epoch) == (1, (1, 2, 3), 0)
    assert len(partition.directories) == 4


def test_the_reassignment_completes_when_the_new_replicas_are_in_sync() -> None:
    active = four_nodes()
    active.reassign([2, 3, 4])

    response = active.alter_isr([1, 2, 3, 4])

    assert response.error_code is ErrorCode.NEW_LEADER_ELECTED
    partition = active.partition()
    assert (partition.replicas, partition.isr, partition.leader) == ((2, 3, 4), (2, 3, 4), 2)
    assert (partition.adding_replicas, partition.removing_replicas) == ((), ())
    assert partition.leader_epoch == 1


def test_a_leader_that_stays_gets_a_new_epoch_when_a_replica_is_removed() -> None:
    active = four_nodes()
    active.reassign([1, 2, 4])

    response = active.alter_isr([1, 2, 3, 4])

    assert (response.error_code, response.isr, response.leader_epoch) == (ErrorCode.NONE, [1, 2, 4], 1)
    assert active.partition().replicas == (1, 2, 4)


def test_the_replication_factor_goes_up_and_down() -> None:
    active = four_nodes([1])
    active.reassign([1, 2, 3])
    active.alter_isr([1, 2, 3])
    assert active.partition().replicas == (1, 2, 3)

    active.reassign([2])

    partition = active.partition()
    assert (partition.replicas, partition.isr, partition.leader) == ((2,), (2,), 2), (
        "nothing has to be copied"
    )


def test_a_change_of_the_replication_factor_can_be_forbidden() -> None:
    active = four_nodes()

    response = active.reassign([1, 2], allows_new_factor=False)
    assert response.error_code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert active.reassign([4, 2, 3], allows_new_factor=False).error_code is ErrorCode.NONE
    assert active.reassign([4, 1, 3], allows_new_factor=False).error_code is ErrorCode.NONE


def test_a_cancelled_reassignment_leaves_the_old_replicas() -> None:
    active = four_nodes()
    active.reassign([4, 2, 3])

    assert active.reassign(None).error_code is ErrorCode.NONE

    partition = active.partition()
    assert (partition.replicas, partition.isr, partition.leader) == ((2, 3, 1), (1, 2, 3), 1)
    assert (partition.adding_replicas, partition.removing_replicas) == ((), ())
    assert active.reassign(None).error_code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_second_target_replaces_the_first() -> None:
    active = four_nodes([1, 2])
    active.reassign([3, 4])
    active.reassign([1, 4])

    partition = active.partition()
    assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == (
        (1, 4, 2, 3),
        (4,),
        (2, 3),
    )
    active.alter_isr([1, 2, 4])
    assert active.partition().replicas == (1, 4)


def test_going_back_to_the_old_replicas_is_as_good_as_a_cancel() -> None:
    active = four_nodes([1, 2])
    active.reassign([3, 4])

    active.reassign([1, 2])

    partition = active.partition()
    assert (partition.replicas, partition.isr, partition.leader) == ((1, 2), (1, 2), 1)
    assert (partition.adding_replicas, partition.removing_replicas) == ((), ())


def test_impossible_assignments_are_refused() -> None:
    active = four_nodes()

    assert active.reassign([]).error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert active.reassign([1, 1]).error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert active.reassign([1, 9]).error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert active.reassign([1], topic="x").error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert active.reassign([1], index=1).error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("is_split", [False, True])
def test_a_partition_that_is_named_twice_is_not_moved(is_split: bool) -> None:
    active = four_nodes()
    active.create(new_topic("u", assignments={0: [1, 2, 3]}))
    first = ReassignablePartition(partition_index=0, replicas=[4, 2, 3])
    second = ReassignablePartition(partition_index=0, replicas=[2, 1, 3])
    other = ReassignableTopic(name="u", partitions=[first])
    topics = (
        [ReassignableTopic(name="t", partitions=[each]) for each in (first, second)]
        if is_split
        else [ReassignableTopic(name="t", partitions=[first, second])]
    )
    request = AlterPartitionReassignmentsRequest(topics=[*topics, other])

    response = active.decide(lambda state: alter_partition_reassignments(state, request))

    errors = [each.error_code for topic in response.responses for each in topic.partitions]
    assert errors == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert active.partition("t").adding_replicas == ()
    assert active.partition("u").adding_replicas == (4,)


def test_a_cancel_that_would_lose_records_is_refused() -> None:
    active = four_nodes([1])
    active.reassign([2, 3])
    active.alter_isr([1, 2])
    active.fence(1)
    assert active.partition().isr == (2,)

    assert active.reassign(None).error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_ongoing_reassignments_are_listed() -> None:
    active = four_nodes()
    active.create(new_topic("u", assignments={0: [1], 1: [2]}))
    active.reassign([4, 2, 3])
    active.reassign([3], topic="u", index=1)

    everything = list_partition_reassignments(active.state, ListPartitionReassignmentsRequest())
    assert {
        (topic.name, each.partition_index) for topic in everything.topics for each in topic.partitions
    } == {
        ("t", 0),
        ("u", 1),
    }
    named = list_partition_reassignments(
        active.state,
        ListPartitionReassignmentsRequest(
            topics=[
                ListPartitionReassignmentsTopics(name="t", partition_indexes=[0, 7]),
                ListPartitionReassignmentsTopics(name="x", partition_indexes=[0]),
                ListPartitionReassignmentsTopics(name="u", partition_indexes=[0]),
            ]
        ),
    )

    (topic,) = named.topics
    (partition,) = topic.partitions
    assert (topic.name, partition.replicas, partition.adding_replicas, partition.removing_replicas) == (
        "t",
        [4, 2, 3, 1],
        [4],
        [1],
    )
