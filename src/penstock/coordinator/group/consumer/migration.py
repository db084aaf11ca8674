"""Online migration between classic and consumer groups (KIP-848).

A classic group of consumers is upgraded when the first member with the consumer protocol joins. The classic members
keep their assignment, and go on with JoinGroup, SyncGroup and Heartbeat until they are upgraded too. When the last
member with the consumer protocol leaves, the group is downgraded. Offsets stay, and the generation continues as the
epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from typing import TypeVar

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.groups import ClassicGroups
from penstock.coordinator.group.classic.member import Member as ClassicMember
from penstock.coordinator.group.client import Client
from penstock.coordinator.group.consumer.assignment import NO_PARTITIONS, NOTHING, Assignment, with_epoch
from penstock.coordinator.group.consumer.context import ConsumerContext
from penstock.coordinator.group.consumer.embedded import (
    by_id,
    read_assignment,
    read_subscription,
    write_assignment,
)
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.group.modern.records import GroupMetadata, TargetEpoch
from penstock.coordinator.group.records.consumer import ClassicMemberMetadata, ClassicProtocol
from penstock.coordinator.group.topic_hash import NO_TOPICS
from penstock.coordinator.result import CoordinatorRecord, CoordinatorResult
from penstock.coordinator.timeline import Timeline
from penstock.metadata.errors import Refused
from penstock.metadata.image import MetadataImage
from penstock.protocol.errors import ErrorCode, MalformedMessage
from penstock.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from penstock.protocol.types import Uuid

logger = logging.getLogger(__name__)

R = TypeVar("R")


class Migration:
    def __init__(self, context: ConsumerContext, classic: ClassicGroups) -> None:
        self._context = context
        self._classic = classic

    # -- upgrade

    def check_upgrade(self, group: ClassicGroup) -> None:
        """`Refused` if the group has to stay classic."""
        if not self._context.migration_policy.can_upgrade:
            raise _cannot_upgrade(group, "group.consumer.migration.policy does not allow it")
        if not group.is_using_consumer_protocol:
            raise _cannot_upgrade(group, "its members are not consumers")
        if len(group.members) > self._context.setting("group.consumer.max.size"):
            raise _cannot_upgrade(group, "it has more members than group.consumer.max.size")

    def upgrade(self, group: ClassicGroup, records: list[CoordinatorRecord]) -> ConsumerGroup:
        """The group after `records` are replayed; only for the current decision."""
        self.check_upgrade(group)
        try:
            upgraded = self._upgraded(group)
        except MalformedMessage as error:
            raise _cannot_upgrade(
                group, "a subscription or assignment of its members is malformed"
            ) from error
        records += group.tombstones()
        types, members = upgraded.records, upgraded.members.values()
        records += [types.member(group.group_id, member) for member in members]
        records.append(types.group(group.group_id, upgraded.metadata))
        records += [types.target(group.group_id, *target) for target in upgraded.targets.items()]
        records.append(types.target_epoch(group.group_id, upgraded.target_epoch))
        records += [types.current(group.group_id, member) for member in members]
        return upgraded

    def log_upgrade(self, group: ClassicGroup, result: CoordinatorResult[R]) -> CoordinatorResult[R]:
        """`result` upgrades the group: log that once it is committed."""
        return result.and_log(logger, f"upgraded group {group.group_id} from classic to consumer")

    def _upgraded(self, group: ClassicGroup) -> ConsumerGroup:
        upgraded = ConsumerGroup(group.group_id, Timeline())
        for member_id, assigned in self._owned_partitions(group).items():
            upgraded.targets[member_id] = assigned
            upgraded.put_member(_as_consumer_member(group, group.members[member_id], assigned))
        # The assignment of a classic leader may miss new partitions, so no topics count as assigned.
        upgraded.set_metadata(GroupMetadata(_epoch_of(group), NO_TOPICS))
        upgraded.set_target_epoch(TargetEpoch(_epoch_of(group), 0))
        return upgraded

    def _owned_partitions(self, group: ClassicGroup) -> dict[str, Assignment]:
        """The partitions that each member may own: its assignment, and those that it reported when it joined.

        Kafka ignores the reported ones. But an unfinished rebalance takes assignments away, and a cooperative member
        that has missed the response with its last assignment still reads its previous one. A member that owns less
        rejoins in any case, and reports it.
        """
        image = self._context.image
        owned_by: dict[str, Assignment] = {}
        taken: set[tuple[Uuid, int]] = set()
        for member_id, member in group.members.items():
            owned_by[member_id] = _assignment_of(group, member, image)
            if not taken.isdisjoint(_each(owned_by[member_id])):
                raise Refused(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"Group {group.group_id} cannot be upgraded: a partition is assigned to two members.",
                )
            taken.update(_each(owned_by[member_id]))
        for member_id, member in group.members.items():
            owned = by_id(_subscription_of(group, member).owned_partitions, image)
            free = {
                topic_id: frozenset(p for p in owned[topic_id] if (topic_id, p) not in taken)
                for topic_id in owned
            }
            owned_by[member_id] = _union(owned_by[member_id], free)
            taken.update(_each(free))
        return owned_by

    # -- downgrade

    def can_downgrade_without(self, group: ConsumerGroup, leaving: Collection[ConsumerMember]) -> bool:
        """Whether the group becomes classic when these members leave."""
        classic_count = group.classic_count - sum(member.is_classic for member in leaving)
        rest = len(group.members) - len(leaving)
        return 0 < rest == classic_count and self._may_downgrade(group, rest)

    def can_downgrade_replacing(self, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
        """Whether the group becomes classic when a classic member replaces this static member."""
        if replaced.is_classic or group.classic_count != len(group.members) - 1:
            return False
        return self._may_downgrade(group, len(group.members))

    def _may_downgrade(self, group: ConsumerGroup, size: int) -> bool:
        if not self._context.migration_policy.can_downgrade:
            logger.info(
                "group %s stays a consumer group: group.consumer.migration.policy does not allow a downgrade",
                group.group_id,
            )
            return False
        if size > self._context.setting("group.max.size"):
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
        """The records that make it a classic group, without `leaving`, and with `joining` in place of its static
        predecessor.

        Members get their target assignment, or keep what they own if they have to rejoin. Kafka always writes the
        target; then, if the group is migrated again or loaded before all members have rejoined, a member is assigned
        a partition that another one still reads.
        """
        predecessor = None if joining is None else group.static_member(joining.instance_id)
        leaving_ids = {member.member_id for member in leaving}
        members: list[tuple[ConsumerMember, Assignment]] = []
        for member_id, member in group.members.items():
            if member_id in leaving_ids:
                continue
            if predecessor is not None and member_id == predecessor.member_id:
                assert joining is not None
                member = joining
            target = group.targets.get(member_id, NOTHING)
            members.append((member, target if rebalance_reason is None else member.owned))
        classic = ClassicGroup.of_members(
            self._context.shard,
            group.group_id,
            generation=group.epoch,
            members=[_as_classic_member(member) for member, _ in members],
        )
        assert classic.protocol_name is not None
        for member, assignment in members:
            downgraded = classic.members[member.member_id]
            downgraded.assignment = write_assignment(
                assignment, self._context.image, like=downgraded.protocols[classic.protocol_name]
            )
        member_ids = [
            joining.member_id
            if joining is not None and predecessor is not None and member_id == predecessor.member_id
            else member_id
            for member_id in group.members
        ]
        return [
            *group.tombstones_of(member_ids),
            self._classic.adopt(classic, rebalance_reason=rebalance_reason),
        ]

    def log_downgrade(self, group: ConsumerGroup, result: CoordinatorResult[R]) -> CoordinatorResult[R]:
        """`result` downgrades the group: log that once it is committed."""
        return result.and_log(logger, f"downgraded group {group.group_id} from consumer to classic")


def _cannot_upgrade(group: ClassicGroup, reason: str) -> Refused:
    return Refused(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {group.group_id} cannot be upgraded from the classic protocol: {reason}.",
    )


def _assignment_of(group: ClassicGroup, member: ClassicMember, image: MetadataImage) -> Assignment:
    if not member.assignment:
        return {}
    assignment = read_assignment(member.assignment)
    if assignment.user_data:
        raise _cannot_upgrade(
            group,
            "its assignor adds user data to assignments, which the consumer protocol does not have; use another "
            "assignor",
        )
    return by_id(assignment.assigned_partitions, image)


def _union(one: Assignment, other: Assignment) -> Assignment:
    both = {
        topic_id: one.get(topic_id, NO_PARTITIONS) | other.get(topic_id, NO_PARTITIONS)
        for topic_id in (*one, *other)
    }
    return {topic_id: partitions for topic_id, partitions in both.items() if partitions}


def _each(assignment: Assignment) -> Iterator[tuple[Uuid, int]]:
    return ((topic_id, partition) for topic_id in assignment for partition in assignment[topic_id])


def _subscription_of(group: ClassicGroup, member: ClassicMember) -> ConsumerProtocolSubscription:
    # While members join, some may not support the protocol of the last generation.
    chosen = member.protocols.get(group.protocol_name or "")
    return read_subscription(member.protocols[group.select_protocol()] if chosen is None else chosen)


def _epoch_of(group: ClassicGroup) -> int:
    """The generation; at least 1, because epoch 0 means that a member joins."""
    return max(group.generation, 1)


def _as_consumer_member(group: ClassicGroup, member: ClassicMember, assigned: Assignment) -> ConsumerMember:
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
        assigned=with_epoch(assigned, _epoch_of(group)),
        classic=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.protocols.items()
            ],
        ),
    )


def _as_classic_member(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None, "a downgraded group has only classic members"
    return ClassicMember(
        member.member_id,
        instance_id=member.instance_id,
        client=Client(member.client_id, member.client_host),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols={protocol.name: protocol.metadata for protocol in member.classic.supported_protocols},
    )
