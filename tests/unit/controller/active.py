"""An active controller without a log: decisions are applied at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from penstock.config.alter import Change, Operation
from penstock.config.broker import BrokerSettings
from penstock.controller import (
    alter_partition,
    configs,
    directories,
    elect_leaders,
    features,
    fencing,
    reassignment,
    registration,
    topics,
)
from penstock.controller.configs import Alteration
from penstock.controller.outcome import Outcome
from penstock.controller.state import ControllerState
from penstock.metadata.image import EMPTY_IMAGE, BrokerImage, MetadataImage, PartitionImage, TopicImage
from penstock.metadata.resources import topic_resource
from penstock.metadata.settings import DynamicSettings
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartition,
    AlterPartitionRequestTopic,
    AlterPartitionResponsePartition,
    BrokerState,
)
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
)
from penstock.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectory,
    AssignReplicasToDirsRequestPartition,
    AssignReplicasToDirsRequestTopic,
)
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from penstock.protocol.messages.broker_registration import BrokerRegistrationResponse
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from penstock.protocol.types import Uuid
from unit.controller import clusters
from unit.controller.clusters import CLUSTER_ID, after

R = TypeVar("R")

SESSION_TIMEOUT_MS = 9000
CONTROLLER_ID = 100


class ActiveController:
    """`now_ms` is the time of the next decisions."""

    def __init__(
        self,
        node_ids: Sequence[int] = (),
        *,
        node_id: int = CONTROLLER_ID,
        settings: dict[str, str] | None = None,
        image: MetadataImage | None = None,
    ) -> None:
        loaded = BrokerSettings.load(
            {"node.id": str(node_id), **(settings or {})}, environment={"HOME": "/home/somebody"}
        )
        self.now_ms = 1_000_000
        if image is None:
            image = after(EMPTY_IMAGE, features.bootstrap_records(loaded))
        self.state = ControllerState(
            image,
            node_id=node_id,
            cluster_id=CLUSTER_ID,
            dynamic=DynamicSettings(loaded),
            rng=random.Random(1),
            now_ms=self.now_ms,
        )
        self.records: Sequence[object] = ()
        """Of the last decision."""
        self._starts: dict[int, int] = {}
        for each in node_ids:
            self.join(each)

    @property
    def image(self) -> MetadataImage:
        return self.state.image

    def decide(self, decide: Callable[[ControllerState], Outcome[R]]) -> R:
        state = self.state
        state.now_ms = self.now_ms
        state.next_offset = state.image.offset + 1
        outcome = decide(state)
        self.records = outcome.records
        if outcome.records:
            last_offset = state.image.offset + len(outcome.records)
            state.apply(state.image.apply(outcome.records, offset=last_offset, epoch=1))
        return outcome.response

    def register(
        self,
        node_id: int,
        *,
        is_new: bool = True,
        is_clean: bool = True,
        log_dirs: Sequence[Uuid] | None = None,
        rack: str | None = None,
        cluster_id: str = CLUSTER_ID,
    ) -> BrokerRegistrationResponse:
        """Register the broker: a new incarnation of it, or the present one again."""
        start = self._starts.get(node_id, 0) + is_new
        existing = self.image.brokers.get(node_id)
        request = clusters.registration(
            node_id,
            start=start,
            rack=rack,
            cluster_id=cluster_id,
            log_dirs=log_dirs,
            previous_broker_epoch=existing.epoch if existing is not None and is_clean else -1,
        )
        response = self.decide(lambda state: registration.register_broker(state, request))
        self._starts[node_id] = start
        return response

    def heartbeat(
        self,
        node_id: int,
        *,
        offset: int | None = None,
        want_fence: bool = False,
        want_shut_down: bool = False,
        offline: Sequence[Uuid] = (),
        cordoned: Sequence[Uuid] | None = None,
    ) -> BrokerHeartbeatResponse:
        """`offset` is that of the last record by default: the broker has applied everything."""
        request = BrokerHeartbeatRequest(
            broker_id=node_id,
            broker_epoch=self.image.brokers[node_id].epoch,
            current_metadata_offset=self.image.offset if offset is None else offset,
            want_fence=want_fence,
            want_shut_down=want_shut_down,
            offline_log_dirs=list(offline),
            cordoned_log_dirs=None if cordoned is None else list(cordoned),
        )
        return self.decide(lambda state: fencing.heartbeat(state, request))

    def join(self, node_id: int, *, is_clean: bool = True, rack: str | None = None) -> None:
        self.register(node_id, is_clean=is_clean, rack=rack)
        self.heartbeat(node_id)
        assert self.image.brokers[node_id].is_active

    def fence(self, node_id: int) -> None:
        self.heartbeat(node_id, want_fence=True)
        self.state.sessions.end(node_id)

    def create(self, *wanted: CreatableTopic) -> None:
        request = CreateTopicsRequest(topics=list(wanted))
        response = self.decide(
            lambda state: topics.create_topics(
                state.image, request, settings=state.settings, rng=state.random
            )
        )
        assert all(topic.error_code == 0 for topic in response.topics), response

    def assign_directories(self, node_id: int, replicas: dict[Uuid, list[int]], topic: str = "t") -> None:
        """The broker reports in which log directories its replicas of the topic are."""
        request = AssignReplicasToDirsRequest(
            broker_id=node_id,
            broker_epoch=self.image.brokers[node_id].epoch,
            directories=[
                AssignReplicasToDirsRequestDirectory(
                    id=directory,
                    topics=[
                        AssignReplicasToDirsRequestTopic(
                            topic_id=self.topic(topic).topic_id,
                            partitions=[
                                AssignReplicasToDirsRequestPartition(partition_index=index)
                                for index in indexes
                            ],
                        )
                    ],
                )
                for directory, indexes in replicas.items()
            ],
        )
        self.decide(lambda state: directories.assign_replicas_to_dirs(state, request))

    def alter_isr(
        self, isr: Sequence[int], *, topic: str = "t", index: int = 0, **fields: int
    ) -> AlterPartitionResponsePartition:
        """The leader of the partition changes the ISR. `fields` replace fields of the request."""
        partition = self.partition(topic, index)
        leader = fields.pop("broker_id", partition.leader)
        wanted = AlterPartitionRequestPartition(
            partition_index=index,
            leader_epoch=fields.pop("leader_epoch", partition.leader_epoch),
            new_isr_with_epochs=[
                BrokerState(
                    broker_id=node_id,
                    broker_epoch=fields.get(f"epoch_of_{node_id}", self.image.brokers[node_id].epoch)
                    if node_id in self.image.brokers
                    else -1,
                )
                for node_id in isr
            ],
            leader_recovery_state=fields.pop("leader_recovery_state", 0),
            partition_epoch=fields.pop("partition_epoch", partition.partition_epoch),
        )
        request = AlterPartitionRequest(
            broker_id=leader,
            broker_epoch=self.image.brokers[leader].epoch,
            topics=[AlterPartitionRequestTopic(topic_id=self.topic(topic).topic_id, partitions=[wanted])],
        )
        response = self.decide(lambda state: alter_partition.alter_partition(state, request))
        return response.topics[0].partitions[0]

    def reassign(
        self,
        replicas: Sequence[int] | None,
        *,
        topic: str = "t",
        index: int = 0,
        allows_new_factor: bool = True,
    ) -> ReassignablePartitionResponse:
        """Reassign the partition; None cancels."""
        request = AlterPartitionReassignmentsRequest(
            allow_replication_factor_change=allows_new_factor,
            topics=[
                ReassignableTopic(
                    name=topic,
                    partitions=[
                        ReassignablePartition(
                            partition_index=index,
                            replicas=None if replicas is None else list(replicas),
                        )
                    ],
                )
            ],
        )
        response = self.decide(lambda state: reassignment.alter_partition_reassignments(state, request))
        return response.responses[0].partitions[0]

    def elect(
        self, election_type: int, partitions: dict[str, list[int]] | None = None
    ) -> dict[tuple[str, int], ErrorCode]:
        """Elect leaders; return the error code of each partition."""
        request = ElectLeadersRequest(
            election_type=election_type,
            topic_partitions=None
            if partitions is None
            else [TopicPartitions(topic=topic, partitions=indexes) for topic, indexes in partitions.items()],
        )
        response = self.decide(lambda state: elect_leaders.elect_leaders(state, request))
        return {
            (topic.topic, each.partition_id): each.error_code
            for topic in response.replica_election_results
            for each in topic.partition_result
        }

    def set_topic_config(self, topic: str, name: str, value: str) -> None:
        alteration = Alteration(topic_resource(topic), [Change(name, Operation.SET, value)])
        refusals = self.decide(
            lambda state: configs.alter_configs(
                state.image, [alteration], settings=state.settings, validate_only=False
            )
        )
        assert refusals == [None]

    def broker(self, node_id: int) -> BrokerImage:
        return self.image.brokers[node_id]

    def topic(self, name: str = "t") -> TopicImage:
        return self.image.topics.by_name[name]

    def partition(self, name: str = "t", index: int = 0) -> PartitionImage:
        return self.topic(name).partitions[index]
