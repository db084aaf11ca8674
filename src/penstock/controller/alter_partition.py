"""AlterPartition: the leader of a partition changes its in-sync replicas (KIP-497).

The controller accepts only members that can really be in sync. A broker that is fenced or shutting down is not
(KIP-841), and neither is one that has restarted since the leader last heard of it (KIP-903).
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.controller.brokers import check_broker_epoch
from penstock.controller.elections import RECOVERING, Change, change_partition
from penstock.controller.leadership import LeaderRules
from penstock.controller.outcome import Outcome
from penstock.controller.state import ControllerState
from penstock.metadata.image import PartitionImage, TopicImage
from penstock.metadata.replay import LEADER_UNCHANGED, changed_partition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartition,
    AlterPartitionResponse,
    AlterPartitionResponsePartition,
    AlterPartitionResponseTopic,
    BrokerState,
)

ANY_EPOCH = -1  # of a broker: versions before 3 do not name it


def alter_partition(
    state: ControllerState, request: AlterPartitionRequest
) -> Outcome[AlterPartitionResponse]:
    check_broker_epoch(state.image, request.broker_id, request.broker_epoch)
    rules = LeaderRules(state)
    records: list[object] = []
    topics = []
    for wanted_topic in request.topics:
        topic = state.image.topics.with_id(wanted_topic.topic_id)
        results = []
        for wanted in wanted_topic.partitions:
            if topic is None:
                results.append(_refused(wanted, ErrorCode.UNKNOWN_TOPIC_ID))
            else:
                results.append(_alter(state, topic, wanted, request.broker_id, rules, records))
        topics.append(AlterPartitionResponseTopic(topic_id=wanted_topic.topic_id, partitions=results))
    return Outcome(records, AlterPartitionResponse(topics=topics), is_atomic=False)


def _alter(
    state: ControllerState,
    topic: TopicImage,
    wanted: AlterPartitionRequestPartition,
    broker_id: int,
    rules: LeaderRules,
    records: list[object],
) -> AlterPartitionResponsePartition:
    if not 0 <= wanted.partition_index < len(topic.partitions):
        return _refused(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partition = topic.partitions[wanted.partition_index]
    isr = _new_isr(wanted)
    error = _check(state, partition, wanted, isr, broker_id)
    if error is not ErrorCode.NONE:
        return _refused(wanted, error)
    record = change_partition(
        partition,
        topic.topic_id,
        wanted.partition_index,
        change=Change(
            isr=[each.broker_id for each in isr],
            leader_recovery_state=wanted.leader_recovery_state,
            default_directory=rules.default_directory,
        ),
        electorate=rules.electorate(topic, partition),
    )
    if record is not None:
        records.append(record)
        if record.leader not in (LEADER_UNCHANGED, broker_id):
            # The change completed a reassignment that removes the leader: it must read the new metadata first.
            return _refused(wanted, ErrorCode.NEW_LEADER_ELECTED)
        partition = changed_partition(partition, record)
    return AlterPartitionResponsePartition(
        partition_index=wanted.partition_index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=int(partition.is_recovering),
        partition_epoch=partition.partition_epoch,
    )


def _check(
    state: ControllerState,
    partition: PartitionImage,
    wanted: AlterPartitionRequestPartition,
    isr: Sequence[BrokerState],
    broker_id: int,
) -> ErrorCode:
    if wanted.leader_epoch > partition.leader_epoch or wanted.partition_epoch > partition.partition_epoch:
        return (
            ErrorCode.NOT_CONTROLLER
        )  # the leader knows more than this node, so another controller is active
    if wanted.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if wanted.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    members = [each.broker_id for each in isr]
    is_valid = len(set(members)) == len(members) and set(members) <= set(partition.replicas)
    if not is_valid or partition.leader not in members:
        return ErrorCode.INVALID_REQUEST
    if wanted.leader_recovery_state == RECOVERING and (len(members) > 1 or not partition.is_recovering):
        return ErrorCode.INVALID_REQUEST
    if not all(_is_eligible(state, each) for each in isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _is_eligible(state: ControllerState, member: BrokerState) -> bool:
    broker = state.image.brokers.get(member.broker_id)
    if broker is None or not broker.is_active or state.sessions.is_being_fenced(broker.node_id):
        return False
    return member.broker_epoch in (ANY_EPOCH, broker.epoch)


def _new_isr(wanted: AlterPartitionRequestPartition) -> Sequence[BrokerState]:
    """The first version with broker epochs is 3."""
    if wanted.new_isr_with_epochs:
        return wanted.new_isr_with_epochs
    return [BrokerState(broker_id=node_id, broker_epoch=ANY_EPOCH) for node_id in wanted.new_isr]


def _refused(wanted: AlterPartitionRequestPartition, error: ErrorCode) -> AlterPartitionResponsePartition:
    return AlterPartitionResponsePartition(
        partition_index=wanted.partition_index,
        error_code=error,
        leader_id=0,
        leader_epoch=0,
        isr=[],
        partition_epoch=0,
    )
