"""Records of committed offsets: one for each group and partition."""

from __future__ import annotations

from penstock.protocol.declare import field, record
from penstock.protocol.types import ZERO_UUID, Int32, Int64, Uuid


@record(key=0, versions=(0, 0))
class LegacyOffsetCommitKey:
    """As brokers before 0.9 wrote it. Never written, only read."""

    group: str
    topic: str
    partition: Int32


@record(key=0, versions=(0, 0))
class LegacyOffsetCommitValue:
    offset: Int64
    metadata: str
    commit_timestamp: Int64


@record(key=1, versions=(0, 0))
class OffsetCommitKey:
    group: str
    topic: str
    partition: Int32


@record(key=1, versions=(0, 4), flexible=4)
class OffsetCommitValue:
    """How far a group has read.

    v1 alone has expire_timestamp: written where the consumer named a retention time of its own.
    v3 adds leader_epoch (KIP-320).
    v4 is flexible, and has the topic's id where that was known.
    """

    offset: Int64
    leader_epoch: Int32 = field(since=3, default=-1, ignorable=True)  # -1: the consumer did not tell
    metadata: str
    commit_timestamp: Int64
    expire_timestamp: Int64 = field(
        since=1, until=1, default=-1, ignorable=True
    )  # -1: by the broker's setting
    topic_id: Uuid = field(since=4, default=ZERO_UUID, tag=0, ignorable=True)
