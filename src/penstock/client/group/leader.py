"""The leader of a classic group: reads all subscriptions, assigns, and detects when the assignment is outdated."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.client.cluster import Cluster, Topic
from penstock.client.group.assignors import Assignor, GroupSubscription, MemberAssignment
from penstock.client.group.assignors.assignor import Racks
from penstock.client.group.assignors.wire import read_subscription, write_assignment
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.join_group import JoinGroupResponseMember
from penstock.protocol.messages.sync_group import SyncGroupRequestAssignment


class GroupLeader:
    """One generation, from the response to the leader's JoinGroup on."""

    def __init__(self, members: Sequence[JoinGroupResponseMember], *, has_rack: bool = False) -> None:
        """`MalformedMessage` if a member's subscription cannot be decoded. `has_rack`: replicas that move matter."""
        self._has_rack = has_rack
        self.members = {
            member.member_id: read_subscription(
                member.metadata, member_id=member.member_id, instance_id=member.group_instance_id
            )
            for member in members
        }
        self.topics = frozenset(topic for member in self.members.values() for topic in member.topics)
        self.assignments: list[SyncGroupRequestAssignment] = []
        self._assigned_over: dict[str, tuple[Racks, ...]] | None = None

    def assign(self, assignor: Assignor, cluster: Cluster) -> None:
        """Fill `assignments`, in the order of member ids."""
        racks = self._partitions(cluster)
        shares = assignor.assign(GroupSubscription(self.members, racks))
        self._assigned_over = racks
        self.assignments = [
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=write_assignment(_member_assignment(shares.get(member_id, ()))),
            )
            for member_id in sorted(self.members)
        ]

    def is_outdated(self, cluster: Cluster) -> bool:
        """Whether there is more or less to assign than before; topics with unknown metadata do not count."""
        if self._assigned_over is None:  # a static leader rejoined and was not asked to assign (KIP-814)
            self._assigned_over = self._partitions(cluster)
            return False
        now = self._partitions(cluster)
        return any(
            self._differs(self._assigned_over.get(name, ()), now.get(name, ()))
            for name in self.topics
            if (topic := cluster.topics.get(name)) is not None and (name in now or _is_deleted(topic))
        )

    def _differs(self, before: tuple[Racks, ...], now: tuple[Racks, ...]) -> bool:
        # Without a rack the leader ignores the places of replicas: a broker that is down for a while causes no
        # rebalance.
        return before != now if self._has_rack else len(before) != len(now)

    def _partitions(self, cluster: Cluster) -> dict[str, tuple[Racks, ...]]:
        return {
            name: _racks(topic, cluster)
            for name in sorted(self.topics)
            if (topic := cluster.topics.get(name)) is not None and topic.partitions and not _is_deleted(topic)
        }


def _is_deleted(topic: Topic) -> bool:
    return topic.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _racks(topic: Topic, cluster: Cluster) -> tuple[Racks, ...]:
    return tuple(
        frozenset(
            rack
            for node_id in partition.replicas
            if (node := cluster.nodes.get(node_id)) is not None and (rack := node.rack) is not None
        )
        for partition in topic.partitions
    )


def _member_assignment(given: object) -> MemberAssignment:
    return given if isinstance(given, MemberAssignment) else MemberAssignment(tuple(given))  # type: ignore[arg-type]
