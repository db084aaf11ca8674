"""OffsetCommit, OffsetFetch and OffsetDelete, and loading their records."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.datapath import topic_id_of
from harness.offsets import (
    COMMIT_VERSION,
    FETCH_VERSION,
    GROUP,
    OffsetHarness,
    ScriptedGroup,
    commit,
    commit_request,
    delete_request,
    errors_of,
    fetch_request,
    fetched_offsets,
    stored,
)
from penstock.coordinator.group.group import GroupType
from penstock.coordinator.group.records.offsets import (
    LAST_TIMESTAMP,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from penstock.coordinator.result import NEWEST, CoordinatorRecord
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.errors import Refused
from penstock.metadata.records.topics import TopicRecord
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import ZERO_UUID, Uuid

NOTHING = (-1, -1, "", ErrorCode.NONE)


@pytest.fixture
def harness() -> OffsetHarness:
    return OffsetHarness()


def value_of(harness: OffsetHarness) -> tuple[OffsetCommitValue, int]:
    """Of the last record."""
    record = harness.log[-1]
    assert isinstance(record.value, OffsetCommitValue)
    return record.value, record.version


# -- commits


def test_a_commit_to_an_unknown_group_creates_a_simple_group(harness: OffsetHarness) -> None:
    commit(harness, {"orders": {0: 7, 2: 9}, "payments": {0: 1}})

    group = harness.context.groups[GROUP]
    assert (group.type, group.state_name(), group.protocol_type) == (GroupType.CLASSIC, "Empty", "")
    assert stored(harness) == {("orders", 0): 7, ("orders", 2): 9, ("payments", 0): 1}


def test_a_commit_that_the_log_refuses_changes_nothing(harness: OffsetHarness) -> None:
    harness.refuse = ErrorCode.NOT_COORDINATOR

    with pytest.raises(Refused):
        harness.play(harness.offsets.commit(commit_request({"orders": {0: 7}}), version=COMMIT_VERSION))

    assert GROUP not in harness.context.groups
    assert not stored(harness, newest=True)


@pytest.mark.parametrize(
    ("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_commit_of_a_member_to_an_unknown_group_is_not_found_from_version_9_on(
    harness: OffsetHarness, version: int, error: ErrorCode
) -> None:
    request = commit_request({"orders": {0: 7, 1: 8}}, member="m", generation=3)

    response = harness.answer(harness.offsets.commit(request, version=version))

    assert errors_of(response) == [error, error]
    assert not harness.log


def test_the_group_checks_the_member_of_a_commit(harness: OffsetHarness) -> None:
    group = harness.context.groups[GROUP] = ScriptedGroup()
    request = commit_request({"orders": {0: 7}}, member="m-1", generation=5)
    request.group_instance_id = "instance"

    response = harness.answer(harness.offsets.commit(request, version=7))

    assert errors_of(response) == [ErrorCode.NONE]
    assert group.asked == [
        {
            "member_id": "m-1",
            "instance_id": "instance",
            "generation_or_epoch": 5,
            "is_transactional": False,
            "version": 7,
        }
    ]


def test_an_error_of_the_group_applies_to_all_existing_partitions(harness: OffsetHarness) -> None:
    harness.context.groups[GROUP] = ScriptedGroup(refuses=ErrorCode.REBALANCE_IN_PROGRESS)
    request = commit_request({"orders": {0: 7, 3: 7}, "nowhere": {0: 7}})

    response = harness.answer(harness.offsets.commit(request, version=COMMIT_VERSION))

    assert errors_of(response) == [
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert not harness.log


def test_a_partition_that_the_group_refuses_fails_the_whole_commit(harness: OffsetHarness) -> None:
    """A member with the previous epoch, and a partition that it did not own then (KIP-1251)."""
    group = harness.context.groups[GROUP] = ScriptedGroup()
    seen: list[tuple[Uuid, int]] = []

    def check(topic_id: Uuid, partition: int) -> None:
        seen.append((topic_id, partition))
        if partition == 2:
            raise Refused(ErrorCode.STALE_MEMBER_EPOCH)

    group.partition_check = check
    response = harness.answer(
        harness.offsets.commit(commit_request({"orders": {0: 7, 2: 7}}), version=COMMIT_VERSION)
    )

    assert errors_of(response) == [ErrorCode.STALE_MEMBER_EPOCH] * 2
    assert seen == [(topic_id_of("orders"), 0), (topic_id_of("orders"), 2)]
    assert not harness.log


TOGETHER = [
    commit_request({"orders": {0: 7, 1: 7}, "payments": {0: 1}}),
    commit_request({"orders": {2: 8, 9: 8}}),
    commit_request({"payments": {0: 2}, "nowhere": {0: 2}}, metadata="x" * 5000),
    commit_request({"orders": {0: 9, 1: 6}, "payments": {0: 3}}),
]
"""With unknown partitions, and metadata that is too long."""


@pytest.mark.parametrize("version", [4, COMMIT_VERSION])
@pytest.mark.parametrize("kind", ["none yet", "allows all", "refuses one partition", "refuses all"])
def test_commits_in_one_write_have_the_same_result_as_one_after_the_other(kind: str, version: int) -> None:
    def check(topic_id: Uuid, partition: int) -> None:
        if partition == 2:
            raise Refused(ErrorCode.STALE_MEMBER_EPOCH)

    def make_harness() -> OffsetHarness:
        harness = OffsetHarness()
        if kind != "none yet":
            group = ScriptedGroup(refuses=ErrorCode.FENCED_INSTANCE_ID if kind == "refuses all" else None)
            harness.context.groups[GROUP] = group
            group.partition_check = check if kind == "refuses one partition" else None
        return harness

    one_by_one, together = make_harness(), make_harness()
    expected = [
        one_by_one.answer(one_by_one.offsets.commit(request, version=version)) for request in TOGETHER
    ]

    responses = together.answer(together.offsets.commit_all(TOGETHER, version=version))

    assert responses == expected
    assert [repr(group) for group in together.context.groups] == [
        repr(group) for group in one_by_one.context.groups
    ]
    assert together.offsets.table.committed_of_group(GROUP) == one_by_one.offsets.table.committed_of_group(
        GROUP
    )
    assert len(together.log) == len(one_by_one.log)
    assert together.reloaded().offsets.table.committed_of_group(
        GROUP
    ) == one_by_one.offsets.table.committed_of_group(GROUP)


def test_unknown_partitions_are_refused_one_by_one(harness: OffsetHarness) -> None:
    request = commit_request({"nowhere": {0: 7}, "orders": {-1: 7, 0: 7, 3: 7}})

    response = harness.answer(harness.offsets.commit(request, version=COMMIT_VERSION))

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors_of(response) == [unknown, unknown, ErrorCode.NONE, unknown]
    assert stored(harness) == {("orders", 0): 7}


def test_offsets_may_be_committed_by_topic_id(harness: OffsetHarness) -> None:
    request = commit_request({"nowhere": {0: 7}, "orders": {0: 7, 3: 7}}, by_id=True)

    response = harness.answer(harness.offsets.commit(request, version=10))

    assert errors_of(response) == [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert [topic.topic_id for topic in response.topics] == [topic_id_of("nowhere"), topic_id_of("orders")]
    assert stored(harness) == {("orders", 0): 7}


def test_an_empty_member_id_is_unknown(harness: OffsetHarness) -> None:
    response = harness.answer(harness.offsets.commit(commit_request({"orders": {0: 7}}), version=10))

    assert errors_of(response) == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_the_length_of_metadata_is_counted_in_utf_16_units() -> None:
    harness = OffsetHarness({"offset.metadata.max.bytes": "4"})

    def error_of(note: str | None) -> ErrorCode:
        request = commit_request({"orders": {0: 7}}, metadata=note)
        return errors_of(harness.answer(harness.offsets.commit(request, version=COMMIT_VERSION)))[0]

    assert error_of("1234") is ErrorCode.NONE
    assert error_of("12345") is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert error_of("äöüß") is ErrorCode.NONE
    assert error_of("\N{GRINNING FACE}\N{GRINNING FACE}") is ErrorCode.NONE
    assert error_of("\N{GRINNING FACE}\N{GRINNING FACE}!") is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert error_of(None) is ErrorCode.NONE


def test_metadata_and_leader_epoch_are_kept(harness: OffsetHarness) -> None:
    request = commit_request({"orders": {0: 7}}, metadata="by hand")
    request.topics[0].partitions[0].committed_leader_epoch = 3

    harness.play(harness.offsets.commit(request, version=COMMIT_VERSION))

    answer = harness.offsets.fetch(fetch_request(), require_stable=False, version=FETCH_VERSION)
    assert fetched_offsets(answer) == {("orders", 0): (7, 3, "by hand", ErrorCode.NONE)}


def test_missing_metadata_is_stored_as_empty_metadata(harness: OffsetHarness) -> None:
    harness.play(
        harness.offsets.commit(commit_request({"orders": {0: 7}}, metadata=None), version=COMMIT_VERSION)
    )

    assert value_of(harness)[0].metadata == ""


def test_a_commit_has_a_timestamp_and_the_topic_id(harness: OffsetHarness) -> None:
    commit(harness, {"orders": {0: 7}})

    value, version = value_of(harness)
    assert (value.commit_timestamp, value.expire_timestamp) == (harness.context.wall_ms(), -1)
    assert (value.topic_id, version) == (topic_id_of("orders"), NEWEST)


def test_a_timestamp_of_version_1_is_kept(harness: OffsetHarness) -> None:
    request = commit_request({"orders": {0: 7}})
    request.topics[0].partitions[0].commit_timestamp = 1_000

    harness.play(harness.offsets.commit(request, version=1))

    assert value_of(harness)[0].commit_timestamp == 1_000


def test_a_retention_time_of_versions_2_to_4_is_kept_in_the_record_version_that_has_it(
    harness: OffsetHarness,
) -> None:
    request = commit_request({"orders": {0: 7}})
    request.retention_time_ms = 5_000

    harness.play(harness.offsets.commit(request, version=4))

    value, version = value_of(harness)
    assert (value.expire_timestamp, version) == (harness.context.wall_ms() + 5_000, 1)


def test_a_retention_time_that_overflows_does_not_fail_the_commit(harness: OffsetHarness) -> None:
    request = commit_request({"orders": {0: 7}})
    request.retention_time_ms = LAST_TIMESTAMP

    harness.play(harness.offsets.commit(request, version=4))

    value, version = value_of(harness)
    assert value.expire_timestamp == LAST_TIMESTAMP
    assert codec(OffsetCommitValue, version).encode(value), "it can be written"


def test_a_commit_of_nothing_writes_nothing(harness: OffsetHarness) -> None:
    response = harness.answer(harness.offsets.commit(commit_request({}), version=COMMIT_VERSION))

    assert not response.topics
    assert not harness.log
    assert GROUP not in harness.context.groups


# -- fetching


def test_fetch_returns_committed_offsets_unless_stable_ones_are_required(harness: OffsetHarness) -> None:
    commit(harness, {"orders": {0: 7}})
    harness.is_committing = False
    commit(harness, {"orders": {0: 8, 1: 1}})

    assert stored(harness) == {("orders", 0): 7}
    assert stored(harness, newest=True) == {("orders", 0): 8, ("orders", 1): 1}
    harness.commit()
    assert stored(harness) == {("orders", 0): 8, ("orders", 1): 1}


def test_an_uncommitted_deletion_is_not_visible_to_fetches(harness: OffsetHarness) -> None:
    commit(harness, {"orders": {0: 7}})
    harness.is_committing = False
    harness.play(harness.offsets.delete(delete_request({"orders": [0]})))
    assert not stored(harness, newest=True)
    commit(harness, {"orders": {1: 1}})

    assert stored(harness) == {("orders", 0): 7}
    harness.commit()
    assert stored(harness) == {("orders", 1): 1}


@pytest.mark.parametrize("is_stable", [False, True])
def test_without_a_committed_offset_minus_one_is_returned(harness: OffsetHarness, is_stable: bool) -> None:
    commit(harness, {"orders": {0: 7}})
    request = fetch_request({"orders": [0, 1, 99], "nowhere": [0]})

    response = harness.offsets.fetch(request, require_stable=is_stable, version=FETCH_VERSION)

    assert fetched_offsets(response) == {
        ("orders", 0): (7, -1, "", ErrorCode.NONE),
        ("orders", 1): NOTHING,
        ("orders", 99): NOTHING,
        ("nowhere", 0): NOTHING,
    }


def test_an_unknown_group_has_no_offsets(harness: OffsetHarness) -> None:
    some = harness.offsets.fetch(fetch_request({"orders": [0]}), require_stable=False, version=FETCH_VERSION)
    every = harness.offsets.fetch(fetch_request(), require_stable=False, version=FETCH_VERSION)

    assert fetched_offsets(some) == {("orders", 0): NOTHING}
    assert every.topics == []
    assert every.error_code is ErrorCode.NONE


def test_a_dead_group_has_no_offsets(harness: OffsetHarness) -> None:
    commit(harness, {"orders": {0: 7}})
    harness.context.groups[GROUP] = ScriptedGroup(refuses=ErrorCode.GROUP_ID_NOT_FOUND)

    response = harness.offsets.fetch(
        fetch_request({"orders": [0]}), require_stable=False, version=FETCH_VERSION
    )

    assert fetched_offsets(response) == {("orders", 0): NOTHING}


def test_a_group_that_is_migrated_keeps_its_offsets(harness: OffsetHarness) -> None:
    commit(harness, {"orders": {0: 7}})
    harness.context.groups[GROUP] = ScriptedGroup(
        refuses=ErrorCode.GROUP_ID_NOT_FOUND
    )  # the committed group is dead
    harness.is_committing = False
    commit(harness, {"payments": {0: 1}}, group="another")
    harness.context.groups[GROUP] = ScriptedGroup()

    response = harness.offsets.fetch(
        fetch_request({"orders": [0]}), require_stable=False, version=FETCH_VERSION
    )

    assert fetched_offsets(response) == {("orders", 0): (7, -1, "", ErrorCode.NONE)}


def test_a_deleted_group_keeps_its_offsets_until_the_deletion_is_committed(harness: OffsetHarness) -> None:
    commit(harness, {"orders": {0: 7}})
    harness.is_committing = False

    harness.answer(harness.administration.delete([GROUP]))

    assert stored(harness) == {("orders", 0): 7}
    harness.commit()
    assert stored(harness) == {}


def test_the_group_checks_the_member_of_a_fetch(harness: OffsetHarness) -> None:
    group = harness.context.groups[GROUP] = ScriptedGroup(refuses=ErrorCode.STALE_MEMBER_EPOCH)
    request = fetch_request({"orders": [0]})
    request.member_id, request.member_epoch = "m", 4

    with pytest.raises(Refused) as refusal:
        harness.offsets.fetch(request, require_stable=False, version=FETCH_VERSION)

    assert refusal.value.error is ErrorCode.STALE_MEMBER_EPOCH
    assert group.asked == [{"member_id": "m", "member_epoch": 4}]


def test_offsets_may_be_fetched_by_topic_id(harness: OffsetHarness) -> None:
    commit(harness, {"orders": {0: 7}})

    response = harness.offsets.fetch(
        fetch_request({"orders": [0], "nowhere": [0]}, by_id=True), require_stable=False, version=10
    )

    orders, nowhere = response.topics
    assert (orders.topic_id, orders.partitions[0].committed_offset) == (topic_id_of("orders"), 7)
    assert nowhere.partitions[0].error_code is ErrorCode.UNKNOWN_TOPIC_ID
    assert nowhere.partitions[0].committed_offset == -1


def test_an_offset_of_a_deleted_topic_with_the_same_name_is_not_returned_by_id(
    harness: OffsetHarness,
) -> None:
    old = OffsetCommitValue(offset=7, metadata="", commit_timestamp=0, topic_id=topic_id_of("old"))
    unknown = OffsetCommitValue(offset=8, metadata="", commit_timestamp=0)
    harness.load(
        [
            CoordinatorRecord(OffsetCommitKey(group=GROUP, topic="orders", partition=0), old),
            CoordinatorRecord(OffsetCommitKey(group=GROUP, topic="orders", partition=1), unknown),
        ]
    )

    response = harness.offsets.fetch(
        fetch_request({"orders": [0, 1]}, by_id=True), require_stable=False, version=10
    )

    assert [partition.committed_offset for partition in response.topics[0].partitions] == [-1, 8]
    assert stored(harness) == {("orders", 0): 7, ("orders", 1): 8}, "by name it is"


def test_all_topics_come_with_their_ids_from_version_10_on(harness: OffsetHarness) -> None:
    commit(harness, {"orders": {0: 7}, "payments": {0: 1}})
    harness.cluster.delete_topic("payments")

    by_name = harness.offsets.fetch(fetch_request(), require_stable=False, version=9)
    by_id = harness.offsets.fetch(fetch_request(), require_stable=False, version=10)

    assert [topic.name for topic in by_name.topics] == ["orders", "payments"]
    assert [topic.topic_id for topic in by_name.topics] == [ZERO_UUID, ZERO_UUID]
    assert [topic.topic_id for topic in by_id.topics] == [topic_id_of("orders")], "the other one is gone"


# -- deleting


def test_offset_delete_removes_offsets(harness: OffsetHarness) -> None:
    commit(harness, {"orders": {0: 7, 1: 8}})

    response = harness.answer(harness.offsets.delete(delete_request({"orders": [0, 2, 3], "nowhere": [0]})))

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [partition.error_code for topic in response.topics for partition in topic.partitions] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        unknown,
        unknown,
    ]
    assert stored(harness) == {("orders", 1): 8}
    assert sum(record.value is None for record in harness.log) == 1, "no record where there is no offset"


def test_offset_delete_refuses_subscribed_topics(harness: OffsetHarness) -> None:
    commit(harness, {"orders": {0: 7}, "payments": {0: 1}})
    harness.context.groups[GROUP] = ScriptedGroup(subscribed=["orders"])

    response = harness.answer(harness.offsets.delete(delete_request({"orders": [0], "payments": [0]})))

    assert [topic.partitions[0].error_code for topic in response.topics] == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.NONE,
    ]
    assert stored(harness) == {("orders", 0): 7}


def test_offsets_of_an_unknown_group_cannot_be_deleted(harness: OffsetHarness) -> None:
    with pytest.raises(Refused) as refusal:
        harness.offsets.delete(delete_request({"orders": [0]}))

    assert refusal.value.error is ErrorCode.GROUP_ID_NOT_FOUND


def test_the_group_decides_whether_offsets_may_be_deleted(harness: OffsetHarness) -> None:
    harness.context.groups[GROUP] = ScriptedGroup(refuses=ErrorCode.NON_EMPTY_GROUP)

    with pytest.raises(Refused) as refusal:
        harness.offsets.delete(delete_request({"orders": [0]}))

    assert refusal.value.error is ErrorCode.NON_EMPTY_GROUP


def changes_of(harness: OffsetHarness) -> list[MetadataDelta]:
    changes: list[MetadataDelta] = []
    harness.cluster.metadata.subscribe(changes.append)
    return changes


def test_offsets_are_removed_with_their_topic(harness: OffsetHarness) -> None:
    commit(harness, {"orders": {0: 7, 1: 8}, "payments": {0: 1}})
    commit(harness, {"orders": {2: 9}}, group="others")
    changes = changes_of(harness)

    harness.cluster.delete_topic("orders")
    records = harness.offsets.metadata_changed(changes[0])
    harness.load(records)

    assert len(records) == 3
    assert stored(harness) == {("payments", 0): 1}
    assert stored(harness, group="others") == {}


def test_a_newer_topic_of_the_same_name_keeps_its_offsets(harness: OffsetHarness) -> None:
    commit(harness, {"orders": {0: 7}})
    new_id = topic_id_of("newer")
    newer = OffsetCommitValue(offset=1, metadata="", commit_timestamp=0, topic_id=new_id)
    harness.load([CoordinatorRecord(OffsetCommitKey(group=GROUP, topic="orders", partition=1), newer)])
    changes = changes_of(harness)

    harness.cluster.delete_topic("orders")
    harness.cluster.publish(TopicRecord(name="orders", topic_id=new_id))
    harness.load([record for delta in changes for record in harness.offsets.metadata_changed(delta)])

    assert stored(harness) == {("orders", 1): 1}


# -- loading


def test_records_of_brokers_before_0_9_are_read(harness: OffsetHarness) -> None:
    key = LegacyOffsetCommitKey(group=GROUP, topic="orders", partition=0)
    value = LegacyOffsetCommitValue(offset=7, metadata="old", commit_timestamp=5)

    harness.load([CoordinatorRecord(key, value)])
    answer = harness.offsets.fetch(fetch_request(), require_stable=False, version=FETCH_VERSION)
    assert fetched_offsets(answer) == {("orders", 0): (7, -1, "old", ErrorCode.NONE)}

    harness.load([CoordinatorRecord(key, None)])
    assert stored(harness) == {}


def test_a_tombstone_of_an_unknown_offset_is_ignored(harness: OffsetHarness) -> None:
    harness.load([CoordinatorRecord(OffsetCommitKey(group=GROUP, topic="orders", partition=0), None)])

    assert stored(harness) == {}
    assert GROUP not in harness.context.groups


partitions = st.sampled_from([("orders", 0), ("orders", 1), ("orders", 2), ("payments", 0)])
groups = st.sampled_from(["a", "b"])
steps = st.one_of(
    st.tuples(st.just("commit"), groups, partitions, st.integers(0, 100)),
    st.tuples(st.just("delete"), groups, partitions, st.just(0)),
    st.tuples(st.just("delete group"), groups, partitions, st.just(0)),
)


@given(st.lists(steps, max_size=30), st.integers(0, 30))
@settings(max_examples=80, deadline=None)
def test_a_new_coordinator_gives_the_same_responses(
    taken: list[tuple[str, str, tuple[str, int], int]], committed_count: int
) -> None:
    harness = OffsetHarness()
    harness.classic.loaded()
    model: dict[tuple[str, str, int], int] = {}
    at_commit = model
    for number, (what, group, (topic, partition), offset) in enumerate(taken):
        if number == committed_count:
            at_commit = dict(model)
            harness.is_committing = False
        if what == "commit":
            commit(harness, {topic: {partition: offset}}, group=group)
            model[group, topic, partition] = offset
        elif what == "delete" and group in harness.context.groups:
            harness.play(harness.offsets.delete(delete_request({topic: [partition]}, group=group)))
            model.pop((group, topic, partition), None)
        elif what == "delete group" and harness.is_committing:  # a classic group is dead at once
            harness.play(harness.administration.delete([group]))
            model = {key: value for key, value in model.items() if key[0] != group}
    if committed_count >= len(taken):
        at_commit = model

    def seen(owner: OffsetHarness, *, newest: bool) -> dict[tuple[str, str, int], int]:
        return {
            (group, *place): offset
            for group in ("a", "b")
            for place, offset in stored(owner, group=group, newest=newest).items()
        }

    assert seen(harness, newest=True) == model
    assert seen(harness, newest=False) == at_commit
    assert seen(harness.reloaded(), newest=False) == model
