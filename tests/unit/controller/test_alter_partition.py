"""AlterPartition: which changes of the ISR are accepted."""

from __future__ import annotations

import pytest

from penstock.controller.alter_partition import alter_partition
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartition,
    AlterPartitionRequestTopic,
)
from penstock.protocol.types import Uuid
from unit.controller.active import ActiveController
from unit.controller.clusters import new_topic


def three_nodes() -> ActiveController:
    """Topic t on brokers 1, 2 and 3, led by 1."""
    active = ActiveController((1, 2, 3))
    active.create(new_topic("t", assignments={0: [1, 2, 3]}, configs={"min.insync.replicas": "2"}))
    return active


def test_the_leader_shrinks_and_expands_the_isr_in_its_epoch() -> None:
    active = three_nodes()

    shrunk = active.alter_isr([1, 2])
    assert (shrunk.error_code, shrunk.isr, shrunk.leader_id) == (ErrorCode.NONE, [1, 2], 1)
    assert (shrunk.leader_epoch, shrunk.partition_epoch) == (0, 1)
    expanded = active.alter_isr([1, 2, 3])

    assert (expanded.isr, expanded.leader_epoch, expanded.partition_epoch) == ([1, 2, 3], 0, 2)
    assert active.partition().isr == (1, 2, 3)


def test_a_replica_that_leaves_below_the_min_isr_is_eligible_until_the_isr_is_large_enough() -> None:
    active = three_nodes()
    active.alter_isr([1, 2])
    active.alter_isr([1])
    assert active.partition().eligible_leaders == (2,)

    active.alter_isr([1, 3])

    assert active.partition().eligible_leaders == ()


def test_an_unchanged_isr_is_answered_without_a_record() -> None:
    active = three_nodes()

    response = active.alter_isr([1, 2, 3])

    assert (response.error_code, response.partition_epoch) == (ErrorCode.NONE, 0)
    assert active.records == []


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"leader_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ({"partition_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ({"broker_id": 2}, ErrorCode.INVALID_REQUEST),
        ({"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ({"epoch_of_2": 1}, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_wrong_fields_are_refused(fields: dict[str, int], error: ErrorCode) -> None:
    active = three_nodes()

    assert active.alter_isr([1, 2], **fields).error_code is error
    assert active.records == []


def test_old_epochs_are_refused() -> None:
    active = three_nodes()
    active.alter_isr([1, 2])
    assert active.alter_isr([1], partition_epoch=0).error_code is ErrorCode.INVALID_UPDATE_VERSION
    active.fence(1)

    assert active.alter_isr([2, 3], leader_epoch=0).error_code is ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize("isr", [[2, 3], [1, 2, 2], [1, 4], []])
def test_an_impossible_isr_is_refused(isr: list[int]) -> None:
    active = three_nodes()
    active.join(4)

    assert active.alter_isr(isr).error_code is ErrorCode.INVALID_REQUEST


def test_fenced_and_stopping_brokers_do_not_join_the_isr() -> None:
    active = three_nodes()
    active.fence(3)
    assert active.alter_isr([1, 2, 3]).error_code is ErrorCode.INELIGIBLE_REPLICA
    active.join(3)
    active.alter_isr([1, 2, 3])
    active.create(new_topic("led-by-3", assignments={0: [3, 1]}))
    active.heartbeat(3, want_shut_down=True)
    assert active.broker(3).in_controlled_shutdown

    assert active.alter_isr([1, 2, 3]).error_code is ErrorCode.INELIGIBLE_REPLICA


def test_a_restarted_broker_joins_only_with_its_new_epoch() -> None:
    active = three_nodes()
    old_epoch = active.broker(3).epoch
    active.fence(3)
    active.join(3)

    assert active.alter_isr([1, 2, 3], epoch_of_3=old_epoch).error_code is ErrorCode.INELIGIBLE_REPLICA
    assert active.alter_isr([1, 2, 3]).error_code is ErrorCode.NONE


def test_an_unclean_leader_reports_that_it_has_recovered() -> None:
    active = three_nodes()
    for node_id in (1, 2, 3):
        active.fence(node_id)
    for node_id in (1, 2, 3):
        active.join(node_id, is_clean=False)
    assert active.partition().is_recovering
    leader = active.partition().leader

    still = active.alter_isr([leader], leader_recovery_state=1)
    assert (still.error_code, still.leader_recovery_state) == (ErrorCode.NONE, 1)
    recovered = active.alter_isr([leader])

    assert (recovered.error_code, recovered.leader_recovery_state) == (ErrorCode.NONE, 0)
    assert not active.partition().is_recovering


def test_unknown_topics_and_partitions_are_refused() -> None:
    active = three_nodes()

    def error_of(topic_id: Uuid, index: int) -> ErrorCode:
        wanted = AlterPartitionRequestPartition(
            partition_index=index, leader_epoch=0, new_isr=[1], partition_epoch=0
        )
        request = AlterPartitionRequest(
            broker_id=1,
            broker_epoch=active.broker(1).epoch,
            topics=[AlterPartitionRequestTopic(topic_id=topic_id, partitions=[wanted])],
        )
        response = active.decide(lambda state: alter_partition(state, request))
        return response.topics[0].partitions[0].error_code

    assert error_of(Uuid(bytes(16)), 0) is ErrorCode.UNKNOWN_TOPIC_ID
    assert error_of(active.topic().topic_id, 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_leader_with_an_old_broker_epoch_is_refused() -> None:
    active = three_nodes()
    request = AlterPartitionRequest(broker_id=1, broker_epoch=active.broker(1).epoch - 1, topics=[])

    with pytest.raises(Refused) as refused:
        active.decide(lambda state: alter_partition(state, request))

    assert refused.value.error is ErrorCode.STALE_BROKER_EPOCH
