"""Log directories of brokers: failed ones, cordoned ones, and which replica is in which (KIP-858, KIP-1066)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.controller.broker_index import PartitionKey
from penstock.controller.brokers import check_broker_epoch
from penstock.controller.elections import Change, change_partition
from penstock.controller.leadership import LeaderRules, partition_changes
from penstock.controller.outcome import Outcome
from penstock.controller.state import ControllerState
from penstock.metadata.directories import is_online
from penstock.metadata.features import CORDONED_METADATA_VERSION, metadata_version
from penstock.metadata.image import BrokerImage
from penstock.metadata.records import BrokerRegistrationChangeRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectory,
    AssignReplicasToDirsResponsePartition,
    AssignReplicasToDirsResponseTopic,
)
from penstock.protocol.types import Uuid


def taken_offline(
    state: ControllerState, broker: BrokerImage, failed: Sequence[Uuid], *, changes_partitions: bool = True
) -> list[object]:
    """Log directories of the broker failed: other replicas lead the partitions in them.

    Without `changes_partitions` only the registration changes, because the broker leaves all its partitions anyway.
    """
    if not failed:
        return []
    node_id = broker.node_id
    records: list[object] = []
    if changes_partitions:
        rules = LeaderRules(state, excluded=(node_id,), offline=failed)
        keys = [key for key in state.index.in_sync(node_id) if directory_of(state, key, node_id) in failed]
        records += partition_changes(state, keys, rules, leaving=node_id)
    online = [each for each in broker.directories if each not in failed]
    records.append(
        BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=broker.epoch, log_dirs=online)
    )
    return records


def cordoned(state: ControllerState, broker: BrokerImage, wanted: Sequence[Uuid] | None) -> list[object]:
    """A cordoned log directory gets no new replicas (KIP-1066)."""
    is_supported = metadata_version(state.image) >= CORDONED_METADATA_VERSION
    if wanted is None or not is_supported or set(wanted) == set(broker.cordoned_directories):
        return []
    return [
        BrokerRegistrationChangeRecord(
            broker_id=broker.node_id, broker_epoch=broker.epoch, cordoned_log_dirs=list(wanted)
        )
    ]


def assign_replicas_to_dirs(
    state: ControllerState, request: AssignReplicasToDirsRequest
) -> Outcome[AssignReplicasToDirsResponse]:
    """A broker reports in which log directories its replicas are."""
    broker = check_broker_epoch(state.image, request.broker_id, request.broker_epoch)
    assigner = _Assigner(state, broker)
    directories = [
        AssignReplicasToDirsResponseDirectory(
            id=directory.id,
            topics=[
                AssignReplicasToDirsResponseTopic(
                    topic_id=topic.topic_id,
                    partitions=[
                        AssignReplicasToDirsResponsePartition(
                            partition_index=each.partition_index,
                            error_code=assigner.assign(topic.topic_id, each.partition_index, directory.id),
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in directory.topics
            ],
        )
        for directory in request.directories
    ]
    response = AssignReplicasToDirsResponse(directories=directories)
    return Outcome(assigner.records, response, is_atomic=False)


class _Assigner:
    def __init__(self, state: ControllerState, broker: BrokerImage) -> None:
        self._topics = state.image.topics
        self._broker = broker
        self._rules = LeaderRules(state)
        self._rules_without_broker = LeaderRules(state, excluded=(broker.node_id,))
        self.records: list[object] = []

    def assign(self, topic_id: Uuid, index: int, directory: Uuid) -> ErrorCode:
        node_id = self._broker.node_id
        topic = self._topics.with_id(topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not 0 <= index < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partition = topic.partitions[index]
        if node_id not in partition.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        change = Change(directories={node_id: directory})
        rules = self._rules
        if not is_online(directory, self._broker.directories):
            change = change._replace(isr=[other for other in partition.isr if other != node_id])
            rules = self._rules_without_broker
        # In its new directory the replica may lead, even if the controller has known it in one that failed.
        directories = [
            directory if replica == node_id else known
            for replica, known in zip(partition.replicas, partition.directories, strict=True)
        ]
        placed = replace(partition, directories=tuple(directories))
        record = change_partition(
            partition, topic_id, index, change=change, electorate=rules.electorate(topic, placed)
        )
        if record is not None:
            self.records.append(record)
        return ErrorCode.NONE


def directory_of(state: ControllerState, key: PartitionKey, node_id: int) -> Uuid:
    """The log directory of a broker's replica."""
    topic = state.image.topics.with_id(key[0])
    assert topic is not None, "the index follows the image"
    partition = topic.partitions[key[1]]
    return partition.directories[partition.replicas.index(node_id)]
