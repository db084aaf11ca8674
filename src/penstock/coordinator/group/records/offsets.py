"""Records of committed offsets: one for each group and partition."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from penstock.coordinator.serde import EncodedRecord, writer_of
from penstock.protocol.declare import field, record
from penstock.protocol.types import ZERO_UUID, Int32, Int64, Uuid
from penstock.records.batch import NO_TIMESTAMP, RecordRows

LAST_TIMESTAMP = 2**63 - 1  # never expires


@record(key=0, versions=(0, 0))
class LegacyOffsetCommitKey:
    """Written by brokers before 0.9. Only read."""

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
    """The committed offset of a partition.

    Only v1 has expire_timestamp, for consumers that set their own retention time.
    v3 adds leader_epoch (KIP-320).
    v4 is flexible and adds topic_id.
    """

    offset: Int64
    leader_epoch: Int32 = field(since=3, default=-1, ignorable=True)  # -1: unknown
    metadata: str
    commit_timestamp: Int64
    expire_timestamp: Int64 = field(
        since=1, until=1, default=NO_TIMESTAMP, ignorable=True
    )  # -1: by the broker's setting
    topic_id: Uuid = field(since=4, default=ZERO_UUID, tag=0, ignorable=True)


class OffsetCommitKeys(NamedTuple):
    """The key of a `CoordinatorRecord` that stands for many: partitions of one topic. Its value is a list with one
    `OffsetCommitValue` for each; they only differ in offset, epoch and metadata."""

    group: str
    topic: str
    partitions: list[int]


# Written with every commit, so it is encoded by hand: a third of the codec's time for a key, a tenth for a value (bench
# `commits50`).

KEY_TYPE = 1
VALUE_VERSION = 4
OFFSET_AT, AFTER_EPOCH_AT = 2, 14  # in a value
KEPT_LENGTH_MAX = 256  # of a cached group id; 4,096 of the longest, with their keys, would be 400 MB

_pack_partition = struct.Struct(">i").pack
_pack_value = struct.Struct(">hqiBqBBB16s").pack
_write_any_value = writer_of(OffsetCommitValue, head=VALUE_VERSION, version=VALUE_VERSION)


def write_key(key: OffsetCommitKey) -> bytes:
    return _key_start(key.group, key.topic) + _pack_partition(key.partition)


def write_value(value: OffsetCommitValue) -> bytes:
    """In version 4."""
    if value.metadata or value.topic_id == ZERO_UUID:
        return _write_any_value(value)
    return _pack_value(
        VALUE_VERSION,
        value.offset,
        value.leader_epoch,
        1,  # an empty string
        value.commit_timestamp,
        1,  # tagged field:
        0,  # the topic id,
        16,  # bytes
        value.topic_id,
    )


def write_block(
    keys: OffsetCommitKeys, values: list[OffsetCommitValue], timestamp_ms: int
) -> RecordRows | list[EncodedRecord]:
    """The same bytes as `write_key` and `write_value`, but the common parts are encoded once."""
    key_start = _key_start(keys.group, keys.topic)
    if any(value.metadata for value in values):
        return [
            (timestamp_ms, key_start + _pack_partition(partition), write_value(value), ())
            for partition, value in zip(keys.partitions, values, strict=True)
        ]
    written = write_value(values[0])
    return RecordRows(
        timestamp_ms,
        key_start,
        keys.partitions,
        written[:OFFSET_AT],
        [value.offset for value in values],
        [value.leader_epoch for value in values],
        written[AFTER_EPOCH_AT:],
    )


def _key_start(group: str, topic: str) -> bytes:
    """All of the key but the partition."""
    return (_kept_key_start if len(group) <= KEPT_LENGTH_MAX else _kept_key_start.__wrapped__)(group, topic)


@lru_cache(maxsize=1 << 12)
def _kept_key_start(group: str, topic: str) -> bytes:
    group_bytes, topic_bytes = group.encode(), topic.encode()
    return b"".join(
        (
            struct.pack(">hh", KEY_TYPE, len(group_bytes)),
            group_bytes,
            struct.pack(">h", len(topic_bytes)),
            topic_bytes,
        )
    )
