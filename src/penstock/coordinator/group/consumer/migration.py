"""Groups that change their type while their members go on (KIP-848).

A classic group whose members are consumers becomes one of the new type when the first new member joins: its
members keep what they have, and go on with JoinGroup, SyncGroup and Heartbeat, until they are replaced. When the
last new member leaves, the group becomes a classic one again. Either way offsets stay, and so does the count of
generations or epochs.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.groups import ClassicGroups
from penstock.coordinator.group.classic.member import Member as ClassicMember
from penstock.coordinator.group.client import Client
from penstock.coordinator.group.consumer import writing
from penstock.coordinator.group.consumer.assignment import NO_PARTITIONS, NOTHING, Assignment, given_at
from penstock.coordinator.group.consumer.embedded import (
    by_id,
    read_assignment,
    read_subscription,
    write_assignment,
)
from penstock.coordinator.group.consumer.group import ConsumerGroup, GroupEpoch, TargetEpoch
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.group.consumer.surroundings import ConsumerSurroundings
from penstock.coordinator.group.records.consumer import ClassicMemberMetadata, ClassicProtocol
from penstock.coordinator.group.topic_hash import NO_TOPICS
from penstock.coordinator.outcome import CoordinatorRecord
from penstock.coordinator.timeline import Timeline
from penstock.metadata.errors import Refused
from penstock.metadata.image import MetadataImage
from penstock.protocol.errors import ErrorCode, MalformedMessage
from penstock.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from penstock.protocol.types import Uuid

logger = logging.getLogger(__name__)


class Migration:
    def __init__(self, around: ConsumerSurroundings, classic: ClassicGroups) -> None:
        self._around = around
        self._classic = classic

    # -- from classic to new

    def check_upgrade(self, group: ClassicGroup) -> None:
        """`Refused` where the group has to stay what it is."""
        if not self._around.migration_policy.can_upgrade:
            raise _cannot_upgrade(group, "group.consumer.migration.policy does not allow it")
        if not group.is_using_consumer_protocol:
            raise _cannot_upgrade(group, "its members are no consumers")
        if len(group.members) > self._around.size_max:
            raise _cannot_upgrade(group, "it has more members than group.consumer.max.size")

    def upgrade(self, group: ClassicGroup, records: list[CoordinatorRecord]) -> ConsumerGroup:
        """The group as it will be when `records` are replayed; for the decision under way, and for no other."""
        self.check_upgrade(group)
        try:
            upgraded = self._upgraded(group)
        except MalformedMessage as error:
            raise _cannot_upgrade(group, "what its members said cannot be read") from error
        records += group.tombstones()
        records += [writing.member_record(group.group_id, member) for member in upgraded.members.values()]
        records.append(
            writing.epoch_record(group.group_id, upgraded.epoch, metadata_hash=upgraded.metadata_hash)
        )
        records += [
            writing.target_record(group.group_id, member_id, target)
            for member_id, target in upgraded.targets.items()
        ]
        records.append(
            writing.target_epoch_record(group.group_id, upgraded.target_epoch.number, timestamp_ms=0)
        )
        records += [writing.place_record(group.group_id, member) for member in upgraded.members.values()]
        logger.info("group %s is upgraded from classic to consumer", group.group_id)
        return upgraded

    def _upgraded(self, group: ClassicGroup) -> ConsumerGroup:
        upgraded = ConsumerGroup(group.group_id, Timeline())
        for member_id, assigned in self._claims(group).items():
            upgraded.targets[member_id] = assigned
            upgraded.put_member(_as_new(group, group.members[member_id], assigned))
        # A classic leader may not have noticed yet that a topic has grown, so its assignment stands for no topics.
        upgraded.set_epoch(GroupEpoch(_epoch_of(group), NO_TOPICS))
        upgraded.set_target_epoch(TargetEpoch(_epoch_of(group), 0))
        return upgraded

    def _claims(self, group: ClassicGroup) -> dict[str, Assignment]:
        """What each member may have: what it was assigned, and what it said it has when it joined.

        Kafka forgets the latter. But an unfinished rebalance takes assignments away, and a cooperative member that has
        not heard of its last assignment, because the answer was lost, still reads what it had before. Whoever
        has less than this joins again in any case, and says so.
        """
        image = self._around.image
        claims: dict[str, Assignment] = {}
        taken: set[tuple[Uuid, int]] = set()
        for member_id, member in group.members.items():
            claims[member_id] = _assignment_of(group, member, image)
            if not taken.isdisjoint(_each(claims[member_id])):
                raise Refused(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"Group {group.group_id} cannot leave the classic protocol: a partition is assigned twice.",
                )
            taken.update(_each(claims[member_id]))
        for member_id, member in group.members.items():
            owned = by_id(_subscription_of(group, member).owned_partitions, image)
            free = {
                topic_id: frozenset(p for p in owned[topic_id] if (topic_id, p) not in taken)
                for topic_id in owned
            }
            claims[member_id] = _joined(claims[member_id], free)
            taken.update(_each(free))
        return claims

    # -- from new to classic

    def can_downgrade_without(self, group: ConsumerGroup, leaving: Collection[ConsumerMember]) -> bool:
        """Whether a classic group is left when these leave."""
        classic_count = group.classic_count - sum(member.is_classic for member in leaving)
        rest = len(group.members) - len(leaving)
        return 0 < rest == classic_count and self._may_downgrade(group, rest)

    def can_downgrade_replacing(self, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
        """Whether a classic group is left when a classic member takes this one's place."""
        if replaced.is_classic or group.classic_count != len(group.members) - 1:
            return False
        return self._may_downgrade(group, len(group.members))

    def _may_downgrade(self, group: ConsumerGroup, size: int) -> bool:
        if not self._around.migration_policy.can_downgrade:
            logger.info(
                "group %s stays a consumer group: group.consumer.migration.policy does not allow another",
                group.group_id,
            )
            return False
        if size > self._around.classic_size_max:
            logger.info(
                "group %s stays a consumer group: it has more members than group.max.size", group.group_id
            )
            return False
        return True

    def downgrade(
        self,
        group: ConsumerGroup,
        leaving: Collection[ConsumerMember],
        *,
        joining: ConsumerMember | None = None,
        rebalance_reason: str | None = None,
    ) -> list[CoordinatorRecord]:
        """The records that make it a classic group: without those who leave, and with `joining` in the place of its
        static predecessor.

        Members keep what they shall have where that is settled, and what they have where they are to join again: Kafka
        writes the former anyway, and if the group changes its type once more before all have joined, or is loaded, one
        member is given what another one still reads.
        """
        predecessor = None if joining is None else group.static_member(joining.instance_id)
        gone = {member.member_id for member in leaving}
        members: list[tuple[ConsumerMember, Assignment]] = []
        for member_id, member in group.members.items():
            if member_id in gone:
                continue
            if predecessor is not None and member_id == predecessor.member_id:
                assert joining is not None
                member = joining
            target = group.targets.get(member_id, NOTHING)
            members.append((member, target if rebalance_reason is None else member.has))
        classic = ClassicGroup.of_members(
            self._around.context,
            group.group_id,
            generation=group.epoch,
            members=[_as_classic(member) for member, _ in members],
        )
        assert classic.protocol_name is not None
        for member, assignment in members:
            downgraded = classic.members[member.member_id]
            downgraded.assignment = write_assignment(
                assignment, self._around.image, like=downgraded.protocols[classic.protocol_name]
            )
        member_ids = [
            joining.member_id
            if joining is not None and predecessor is not None and member_id == predecessor.member_id
            else member_id
            for member_id in group.members
        ]
        logger.info("group %s is downgraded from consumer to classic", group.group_id)
        return [
            *group.tombstones_of(member_ids),
            self._classic.adopt(classic, rebalance_reason=rebalance_reason),
        ]


def _cannot_upgrade(group: ClassicGroup, reason: str) -> Refused:
    return Refused(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {group.group_id} cannot leave the classic protocol: {reason}.",
    )


def _assignment_of(group: ClassicGroup, member: ClassicMember, image: MetadataImage) -> Assignment:
    if not member.assignment:
        return {}
    assignment = read_assignment(member.assignment)
    if assignment.user_data:
        raise _cannot_upgrade(
            group,
            "its assignor adds data of its own to assignments, which the new protocol cannot carry; let members "
            "use one that does not",
        )
    return by_id(assignment.assigned_partitions, image)


def _joined(one: Assignment, other: Assignment) -> Assignment:
    both = {
        topic_id: one.get(topic_id, NO_PARTITIONS) | other.get(topic_id, NO_PARTITIONS)
        for topic_id in (*one, *other)
    }
    return {topic_id: partitions for topic_id, partitions in both.items() if partitions}


def _each(assignment: Assignment) -> Iterator[tuple[Uuid, int]]:
    return ((topic_id, partition) for topic_id in assignment for partition in assignment[topic_id])


def _subscription_of(group: ClassicGroup, member: ClassicMember) -> ConsumerProtocolSubscription:
    # While members join, the last generation's protocol, if there was one, need not be one that all support.
    chosen = member.protocols.get(group.protocol_name or "")
    return read_subscription(member.protocols[group.select_protocol()] if chosen is None else chosen)


def _epoch_of(group: ClassicGroup) -> int:
    """Its generation. Before its first one nobody has been told any, and 0 would mean that a member joins."""
    return max(group.generation, 1)


def _as_new(group: ClassicGroup, member: ClassicMember, assigned: Assignment) -> ConsumerMember:
    subscription = _subscription_of(group, member)
    return ConsumerMember(
        member.member_id,
        epoch=_epoch_of(group),
        previous_epoch=_epoch_of(group),
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client.client_id,
        client_host=member.client.host,
        topics=frozenset(subscription.topics),
        assigned=given_at(assigned, _epoch_of(group)),
        classic=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.protocols.items()
            ],
        ),
    )


def _as_classic(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None, "only classic members are left"
    return ClassicMember(
        member.member_id,
        instance_id=member.instance_id,
        client=Client(member.client_id, member.client_host),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols={protocol.name: protocol.metadata for protocol in member.classic.supported_protocols},
    )
