"""Consumer groups without a broker: topics that appear and disappear, and members that follow the protocol."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from harness.groups import GroupHarness
from penstock.coordinator.group.classic.groups import ClassicGroups
from penstock.coordinator.group.client import Client
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.groups import ConsumerGroups
from penstock.coordinator.group.records import TYPES
from penstock.coordinator.serde import RecordSerde
from penstock.metadata.errors import Refused
from penstock.metadata.image import EMPTY_IMAGE, MetadataImage
from penstock.metadata.records import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from penstock.metadata.resources import group_resource
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from penstock.protocol.types import Uuid

GROUP = "readers"
CLIENT = Client("client", "/127.0.0.1")
SESSION_MS = 45_000
REBALANCE_MS = 60_000
AT_ONCE = {"group.consumer.assignment.interval.ms": "0"}
"""Every new epoch is assigned at once, which most tests want."""

Partitions = set[tuple[str, int]]


def topic_id(name: str, incarnation: int = 0) -> Uuid:
    return Uuid(hashlib.sha256(f"{name} {incarnation}".encode()).digest()[:16])


class ConsumerHarness(GroupHarness):
    """`heartbeat` sends one request of a member, `settle` sends heartbeats of honest members until nothing changes."""

    def __init__(
        self,
        properties: dict[str, str] | None = None,
        *,
        image: MetadataImage = EMPTY_IMAGE,
        seed: int = 1,
    ) -> None:
        super().__init__(
            {**AT_ONCE, **(properties or {})}, image=image, seed=seed, framing=RecordSerde(TYPES)
        )
        self.classic = ClassicGroups(self.context)
        self.consumer = ConsumerGroups(self.context, self.classic)
        self.parts += [self.classic, self.consumer]
        self.classic.loaded()
        self.consumer.loaded()
        self._incarnations: dict[str, int] = {}

    # -- topics

    def create_topic(self, name: str, partition_count: int) -> None:
        self._incarnations[name] = self._incarnations.get(name, -1) + 1
        records: list[Any] = [TopicRecord(name=name, topic_id=self.id_of(name))]
        self.change_metadata(*records, *self._partitions(name, 0, partition_count))

    def grow_topic(self, name: str, partition_count: int) -> None:
        topic = self.image.topics.get(name)
        assert topic is not None
        self.change_metadata(*self._partitions(name, len(topic.partitions), partition_count))

    def delete_topic(self, name: str) -> None:
        self.change_metadata(RemoveTopicRecord(topic_id=self.id_of(name)))

    def configure_group(self, name: str, value: str) -> None:
        resource = group_resource(GROUP)
        self.change_metadata(
            ConfigRecord(
                resource_type=int(resource.type), resource_name=resource.name, name=name, value=value
            )
        )

    def id_of(self, name: str) -> Uuid:
        return topic_id(name, self._incarnations[name])

    def change_metadata(self, *records: Any) -> None:
        delta = self.image.apply(records, offset=self.image.offset + len(records), epoch=1)
        self.image = delta.image
        self.consumer.metadata_changed(delta)

    def _partitions(self, name: str, first: int, end: int) -> list[PartitionRecord]:
        return [
            PartitionRecord(
                partition_id=index,
                topic_id=self.id_of(name),
                replicas=[1],
                isr=[1],
                removing_replicas=[],
                adding_replicas=[],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=[Uuid(bytes(16))],
            )
            for index in range(first, end)
        ]

    # -- requests of members

    def heartbeat(
        self,
        member_id: str = "one",
        epoch: int = 0,
        *,
        topics: list[str] | None = None,
        regex: str | None = None,
        owned: Partitions | None = None,
        client: Client = CLIENT,
        version: int = 1,
        **fields: Any,
    ) -> ConsumerGroupHeartbeatResponse:
        """A refusal becomes an error response, as in the handler."""
        if epoch == 0:
            fields.setdefault("rebalance_timeout_ms", REBALANCE_MS)
            owned = set() if owned is None else owned
        request = ConsumerGroupHeartbeatRequest(
            group_id=fields.pop("group_id", GROUP),
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=topics,
            subscribed_topic_regex=regex,
            topic_partitions=None if owned is None else self.write(owned),
            **fields,
        )
        try:
            return self.answer(self.consumer.heartbeat(request, client=client, version=version))
        except Refused as refused:
            return ConsumerGroupHeartbeatResponse(
                error_code=refused.error,
                error_message=refused.message,
                member_epoch=0,
                heartbeat_interval_ms=0,
            )

    def write(self, partitions: Partitions) -> list[TopicPartitions]:
        by_topic: dict[str, list[int]] = {}
        for name, index in sorted(partitions):
            by_topic.setdefault(name, []).append(index)
        return [TopicPartitions(topic_id=self.id_of(name), partitions=by_topic[name]) for name in by_topic]

    def read(self, topics: list[TopicPartitions]) -> Partitions:
        names = {
            topic_id(name, number): name
            for name, count in self._incarnations.items()
            for number in range(count + 1)
        }
        return {(names[topic.topic_id], index) for topic in topics for index in topic.partitions}

    # -- state

    @property
    def group(self) -> ConsumerGroup:
        found = self.context.groups[GROUP]
        assert isinstance(found, ConsumerGroup)
        return found

    def owners(self) -> dict[tuple[Uuid, int], list[str]]:
        """By partition, all members that own it or have not yet reported its revocation."""
        found: dict[tuple[Uuid, int], list[str]] = {}
        for member in self.group.members.values():
            for owned in (member.assigned, member.revoking):
                for id_, partitions in owned.items():
                    for partition in partitions:
                        found.setdefault((id_, partition), []).append(member.member_id)
        return found

    def reloaded(self) -> ConsumerHarness:
        """The state that a new coordinator loads from the log."""
        # Ids must be new, like those of another node.
        other = ConsumerHarness(image=self.image, seed=self.context.dependencies.random.getrandbits(32))
        other.settings = self.settings
        other.clock_ms = self.clock_ms
        other._incarnations = dict(self._incarnations)
        other.classic._is_serving = False
        other.load(self.compacted())
        other.classic.loaded()
        other.consumer.loaded()
        return other


@dataclass
class HonestMember:
    """A member like real clients: it takes new partitions at once, and revokes partitions by its next heartbeat, since
    revoking takes a while."""

    harness: ConsumerHarness
    member_id: str
    topics: list[str] = field(default_factory=lambda: ["water"])
    regex: str | None = None
    instance_id: str | None = None
    assignor: str | None = None
    epoch: int = 0
    owned: Partitions = field(default_factory=set)
    """The partitions that it reads."""
    assigned: Partitions = field(default_factory=set)
    """Its last target assignment."""
    is_in: bool = False
    has_missed_answer: bool = False
    """Then it reports everything again, and gets everything again."""

    def lose_answer(self) -> None:
        """It sends a heartbeat, and the response is lost."""
        assert self.is_in
        self.harness.heartbeat(self.member_id, self.epoch, owned=self.owned, instance_id=self.instance_id)
        self.has_missed_answer = True

    def subscribe(self, topics: list[str]) -> None:
        self.topics = topics
        self.owned = set(self.assigned)
        self.take(
            self.harness.heartbeat(
                self.member_id, self.epoch, topics=topics, owned=self.owned, instance_id=self.instance_id
            )
        )

    def forget_topic(self, name: str) -> None:
        """The topic is deleted: there is nothing left to read."""
        self.owned = {one for one in self.owned if one[0] != name}
        self.assigned = {one for one in self.assigned if one[0] != name}

    def heartbeat(self) -> ConsumerGroupHeartbeatResponse:
        self.owned = set(self.assigned)
        if not self.is_in:
            response = self.harness.heartbeat(
                self.member_id,
                0,
                topics=self.topics,
                regex=self.regex,
                instance_id=self.instance_id,
                server_assignor=self.assignor,
            )
        elif self.has_missed_answer:
            response = self.harness.heartbeat(
                self.member_id,
                self.epoch,
                topics=self.topics,
                regex=self.regex,
                owned=self.owned,
                instance_id=self.instance_id,
                rebalance_timeout_ms=REBALANCE_MS,
            )
        else:
            response = self.harness.heartbeat(
                self.member_id, self.epoch, owned=self.owned, instance_id=self.instance_id
            )
        self.has_missed_answer = False
        self.take(response)
        return response

    def take(self, response: ConsumerGroupHeartbeatResponse) -> None:
        if response.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self._abandon()
        elif response.error_code is ErrorCode.NONE:
            self.is_in, self.epoch = True, response.member_epoch
            if response.assignment is not None:
                self.assigned = self.harness.read(response.assignment.topic_partitions)
                self.owned = self.owned | self.assigned

    def leave(self) -> ConsumerGroupHeartbeatResponse:
        response = self.harness.heartbeat(self.member_id, -1, instance_id=self.instance_id)
        self._abandon()
        return response

    def _abandon(self) -> None:
        self.is_in, self.epoch, self.owned, self.assigned = False, 0, set(), set()


def settle(harness: ConsumerHarness, *members: HonestMember, rounds: int = 20) -> None:
    """All members send heartbeats until nothing is written any more."""
    for _ in range(rounds):
        before = len(harness.log)
        for member in members:
            member.heartbeat()
        harness.advance(0)
        if len(harness.log) == before:
            return
    raise AssertionError(f"still changing after {rounds} rounds")
