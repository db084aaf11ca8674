"""Records about topics and their partitions."""

from __future__ import annotations

from penstock.protocol.declare import field, record
from penstock.protocol.types import Int8, Int32, Uuid


@record(key=2, versions=(0, 0), flexible=0)
class TopicRecord:
    """A topic was created; its partitions follow."""

    name: str
    topic_id: Uuid


@record(key=9, versions=(0, 0), flexible=0)
class RemoveTopicRecord:
    """A topic was deleted, and its partitions with it."""

    topic_id: Uuid


@record(key=3, versions=(0, 2), flexible=0)
class PartitionRecord:
    """The full state of a partition.

    v1 adds directories (KIP-858).
    v2 adds eligible_leader_replicas and last_known_elr (KIP-966).
    """

    partition_id: Int32 = -1
    topic_id: Uuid
    replicas: list[Int32]  # the preferred leader first
    isr: list[Int32]
    removing_replicas: list[Int32]
    adding_replicas: list[Int32]
    leader: Int32 = -1  # -1: no leader
    leader_recovery_state: Int8 = field(default=0, tag=0)  # 1 after an unclean election, until recovered
    leader_epoch: Int32 = -1
    partition_epoch: Int32 = -1  # incremented with every change of the partition
    directories: list[Uuid] = field(since=1, default=[])  # of each of `replicas`, in the same order
    eligible_leader_replicas: list[Int32] | None = field(since=2, default=None, tag=1)
    last_known_elr: list[Int32] | None = field(since=2, default=None, tag=2)


@record(key=5, versions=(0, 2), flexible=0)
class PartitionChangeRecord:
    """A change of a partition. None, -2 for the leader and -1 for its recovery state mean "unchanged".

    The partition epoch goes up by one; the leader epoch does where `leader` is given, even if it is the same broker.

    v1 adds directories (KIP-858).
    v2 adds eligible_leader_replicas and last_known_elr (KIP-966).
    """

    partition_id: Int32 = -1
    topic_id: Uuid
    isr: list[Int32] | None = field(default=None, tag=0)
    leader: Int32 = field(default=-2, tag=1)  # -1: no leader
    replicas: list[Int32] | None = field(default=None, tag=2)
    removing_replicas: list[Int32] | None = field(default=None, tag=3)
    adding_replicas: list[Int32] | None = field(default=None, tag=4)
    leader_recovery_state: Int8 = field(default=-1, tag=5)
    directories: list[Uuid] | None = field(since=1, default=None, tag=8)
    eligible_leader_replicas: list[Int32] | None = field(since=2, default=None, tag=6)
    last_known_elr: list[Int32] | None = field(since=2, default=None, tag=7)


@record(key=28, versions=(0, 0), flexible=0)
class ClearElrRecord:
    """Clears the eligible leader replicas of one topic, or of all topics."""

    topic_name: str  # empty: all topics
