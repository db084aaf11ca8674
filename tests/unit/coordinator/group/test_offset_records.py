"""What is written by hand is what the codec would write."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.framing import RecordFraming
from penstock.coordinator.group.records import TYPES, WRITERS
from penstock.coordinator.group.records.offsets import OffsetCommitKey, OffsetCommitValue
from penstock.coordinator.outcome import CoordinatorRecord
from penstock.protocol.types import ZERO_UUID, Uuid

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
topic_ids = st.just(ZERO_UUID) | st.binary(min_size=16, max_size=16).map(Uuid)

BY_HAND = RecordFraming(TYPES, WRITERS)
BY_CODEC = RecordFraming(TYPES)


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
def test_offsets_written_by_hand_are_as_the_codec_writes_them(
    key: OffsetCommitKey, value: OffsetCommitValue
) -> None:
    record = CoordinatorRecord(key, value)

    assert BY_HAND.encode(record) == BY_CODEC.encode(record)
    assert BY_HAND.decode(*BY_HAND.encode(record)) == (key, value)


def test_a_group_with_a_long_name_is_written_like_any_other() -> None:
    record = CoordinatorRecord(OffsetCommitKey(group="g" * 32767, topic="t", partition=1), None)

    assert BY_HAND.encode(record) == BY_CODEC.encode(record)


def test_other_versions_are_left_to_the_codec() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=1)
    value = OffsetCommitValue(offset=7, metadata="", commit_timestamp=5, expire_timestamp=9)
    record = CoordinatorRecord(key, value, version=1)

    assert BY_HAND.encode(record) == BY_CODEC.encode(record)
    assert BY_HAND.decode(*BY_HAND.encode(record)) == (key, value)
