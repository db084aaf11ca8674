"""The leader's part in a classic group: it knows what all want, assigns, and notices when there is more to assign."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.client.cluster import Cluster, Topic
from penstock.client.group.assignors import Assignor, GroupToAssign, Share
from penstock.client.group.assignors.assignor import Racks
from penstock.client.group.assignors.wire import read_subscription, write_assignment
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.join_group import JoinGroupResponseMember
from penstock.protocol.messages.sync_group import SyncGroupRequestAssignment


class Leading:
    """One generation, from the answer to the leader's join on."""

    def __init__(self, members: Sequence[JoinGroupResponseMember], *, has_rack: bool = False) -> None:
        """`MalformedMessage` where a member's subscription cannot be read. `has_rack`: replicas that move matter."""
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
        """Fill `assignments`, for members in the order of their ids."""
        racks = self._partitions(cluster)
        shares = assignor.assign(GroupToAssign(self.members, racks))
        self._assigned_over = racks
        self.assignments = [
            SyncGroupRequestAssignment(
                member_id=member_id, assignment=write_assignment(_share(shares.get(member_id, ())))
            )
            for member_id in sorted(self.members)
        ]

    def is_outdated(self, cluster: Cluster) -> bool:
        """Whether there is something else to assign than there was; what cannot be told right now does not count."""
        if self._assigned_over is None:  # a static leader came back, and was not asked to assign (KIP-814)
            self._assigned_over = self._partitions(cluster)
            return False
        now = self._partitions(cluster)
        return any(
            self._differs(self._assigned_over.get(name, ()), now.get(name, ()))
            for name in self.topics
            if (topic := cluster.topics.get(name)) is not None and (name in now or _is_gone(topic))
        )

    def _differs(self, before: tuple[Racks, ...], now: tuple[Racks, ...]) -> bool:
        # Without racks of its own a leader does not care where replicas are: a broker that is away for a while is no
        # reason to rebalance.
        return before != now if self._has_rack else len(before) != len(now)

    def _partitions(self, cluster: Cluster) -> dict[str, tuple[Racks, ...]]:
        return {
            name: _racks(topic, cluster)
            for name in sorted(self.topics)
            if (topic := cluster.topics.get(name)) is not None and topic.partitions and not _is_gone(topic)
        }


def _is_gone(topic: Topic) -> bool:
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


def _share(given: object) -> Share:
    return given if isinstance(given, Share) else Share(tuple(given))  # type: ignore[arg-type]
