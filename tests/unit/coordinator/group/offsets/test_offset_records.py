"""The hand-written encoders of offset records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.group.records import BLOCKS, TYPES, WRITERS
from penstock.coordinator.group.records.offsets import (
    OffsetCommitKey,
    OffsetCommitKeys,
    OffsetCommitValue,
)
from penstock.coordinator.result import CoordinatorRecord
from penstock.coordinator.serde import RecordSerde
from penstock.protocol.types import ZERO_UUID, Uuid
from penstock.records import kernel

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
topic_ids = st.just(ZERO_UUID) | st.binary(min_size=16, max_size=16).map(Uuid)

BY_HAND = RecordSerde(TYPES, WRITERS, BLOCKS)
BY_CODEC = RecordSerde(TYPES)


@given(
    key=st.builds(OffsetCommitKey, group=names, topic=names, partition=int32),
    value=st.builds(
        OffsetCommitValue,
        offset=int64,
        leader_epoch=int32,
        metadata=st.just("") | names,
        commit_timestamp=int64,
        topic_id=topic_ids,
    ),
)
def test_hand_written_offset_records_equal_those_of_the_codec(
    key: OffsetCommitKey, value: OffsetCommitValue
) -> None:
    record = CoordinatorRecord(key, value)

    assert BY_HAND.encode(record) == BY_CODEC.encode(record)
    assert BY_HAND.decode(*BY_HAND.encode(record)) == (key, value)


def test_a_group_with_a_long_id_is_encoded_like_any_other() -> None:
    record = CoordinatorRecord(OffsetCommitKey(group="g" * 32767, topic="t", partition=1), None)

    assert BY_HAND.encode(record) == BY_CODEC.encode(record)


def test_the_codec_writes_other_versions() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=1)
    value = OffsetCommitValue(offset=7, metadata="", commit_timestamp=5, expire_timestamp=9)
    record = CoordinatorRecord(key, value, version=1)

    assert BY_HAND.encode(record) == BY_CODEC.encode(record)
    assert BY_HAND.decode(*BY_HAND.encode(record)) == (key, value)


@given(
    group=names,
    topic=names,
    partitions=st.sampled_from([st.just(""), names]).flatmap(
        lambda notes: st.lists(st.tuples(int32, int64, int32, notes), min_size=1, max_size=10)
    ),
    commit_timestamp=int64,
    topic_id=topic_ids,
)
def test_a_block_of_offsets_is_encoded_like_single_records(
    group: str,
    topic: str,
    partitions: list[tuple[int, int, int, str]],
    commit_timestamp: int,
    topic_id: Uuid,
) -> None:
    keys = OffsetCommitKeys(group, topic, [partition for partition, _, _, _ in partitions])
    values = [
        OffsetCommitValue(
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=metadata,
            commit_timestamp=commit_timestamp,
            topic_id=topic_id,
        )
        for _, offset, leader_epoch, metadata in partitions
    ]

    single = [
        CoordinatorRecord(OffsetCommitKey(group=group, topic=topic, partition=partition), value)
        for partition, value in zip(keys.partitions, values, strict=True)
    ]

    by_hand = kernel.build_batch(BY_HAND.encode_all([CoordinatorRecord(keys, values)], timestamp_ms=7))

    assert by_hand == kernel.build_batch(BY_CODEC.encode_all(single, timestamp_ms=7))
