"""Commits, questions and deletions of offsets, and what a new owner of the shard makes of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.datapath import topic_id_of
from harness.offsets import (
    COMMIT_VERSION,
    FETCH_VERSION,
    GROUP,
    ObedientGroup,
    OffsetStage,
    commit,
    commit_request,
    delete_request,
    errors_of,
    fetch_request,
    stored,
    told,
)
from penstock.coordinator.group.group import GroupType
from penstock.coordinator.group.records.offsets import (
    LAST_TIMESTAMP,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from penstock.coordinator.outcome import NEWEST, CoordinatorRecord
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.errors import Refused
from penstock.metadata.records.topics import TopicRecord
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import ZERO_UUID, Uuid

NOTHING = (-1, -1, "", ErrorCode.NONE)


@pytest.fixture
def stage() -> OffsetStage:
    return OffsetStage()


def value_of(stage: OffsetStage) -> tuple[OffsetCommitValue, int]:
    """The last record, and its version."""
    record = stage.log[-1]
    assert isinstance(record.value, OffsetCommitValue)
    return record.value, record.version


# -- commits


def test_a_commit_without_a_group_makes_a_simple_one(stage: OffsetStage) -> None:
    commit(stage, {"orders": {0: 7, 2: 9}, "payments": {0: 1}})

    group = stage.context.groups[GROUP]
    assert (group.type, group.state_name(), group.protocol_type) == (GroupType.CLASSIC, "Empty", "")
    assert stored(stage) == {("orders", 0): 7, ("orders", 2): 9, ("payments", 0): 1}


def test_a_commit_that_the_log_refuses_leaves_no_trace(stage: OffsetStage) -> None:
    stage.refuse = ErrorCode.NOT_COORDINATOR

    with pytest.raises(Refused):
        stage.play(stage.offsets.commit(commit_request({"orders": {0: 7}}), version=COMMIT_VERSION))

    assert GROUP not in stage.context.groups
    assert not stored(stage, newest=True)


@pytest.mark.parametrize(
    ("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_member_of_a_group_that_is_not_there_is_told_so_from_version_9_on(
    stage: OffsetStage, version: int, error: ErrorCode
) -> None:
    request = commit_request({"orders": {0: 7, 1: 8}}, member="m", generation=3)

    response = stage.answer(stage.offsets.commit(request, version=version))

    assert errors_of(response) == [error, error]
    assert not stage.log


def test_the_group_decides_who_may_commit(stage: OffsetStage) -> None:
    group = stage.context.groups[GROUP] = ObedientGroup()
    request = commit_request({"orders": {0: 7}}, member="m-1", generation=5)
    request.group_instance_id = "instance"

    response = stage.answer(stage.offsets.commit(request, version=7))

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


def test_what_a_group_refuses_is_refused_for_all_partitions_that_exist(stage: OffsetStage) -> None:
    stage.context.groups[GROUP] = ObedientGroup(refuses=ErrorCode.REBALANCE_IN_PROGRESS)
    request = commit_request({"orders": {0: 7, 3: 7}, "nowhere": {0: 7}})

    response = stage.answer(stage.offsets.commit(request, version=COMMIT_VERSION))

    assert errors_of(response) == [
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert not stage.log


def test_a_partition_that_the_group_refuses_spoils_the_whole_commit(stage: OffsetStage) -> None:
    """A member that is an epoch behind, with one partition that it did not have then (KIP-1251)."""
    group = stage.context.groups[GROUP] = ObedientGroup()
    seen: list[tuple[Uuid, int]] = []

    def check(topic_id: Uuid, partition: int) -> None:
        seen.append((topic_id, partition))
        if partition == 2:
            raise Refused(ErrorCode.STALE_MEMBER_EPOCH)

    group.partition_check = check
    response = stage.answer(
        stage.offsets.commit(commit_request({"orders": {0: 7, 2: 7}}), version=COMMIT_VERSION)
    )

    assert errors_of(response) == [ErrorCode.STALE_MEMBER_EPOCH] * 2
    assert seen == [(topic_id_of("orders"), 0), (topic_id_of("orders"), 2)]
    assert not stage.log


TOGETHER = [
    commit_request({"orders": {0: 7, 1: 7}, "payments": {0: 1}}),
    commit_request({"orders": {2: 8, 9: 8}}),
    commit_request({"payments": {0: 2}, "nowhere": {0: 2}}, metadata="x" * 5000),
    commit_request({"orders": {0: 9, 1: 6}, "payments": {0: 3}}),
]
"""Among them partitions that do not exist, and a note that is too long."""


@pytest.mark.parametrize("version", [4, COMMIT_VERSION])
@pytest.mark.parametrize("kind", ["none yet", "allows all", "refuses one partition", "refuses all"])
def test_commits_that_are_decided_together_are_decided_as_one_after_the_other(
    kind: str, version: int
) -> None:
    def check(topic_id: Uuid, partition: int) -> None:
        if partition == 2:
            raise Refused(ErrorCode.STALE_MEMBER_EPOCH)

    def make_stage() -> OffsetStage:
        stage = OffsetStage()
        if kind != "none yet":
            group = ObedientGroup(refuses=ErrorCode.FENCED_INSTANCE_ID if kind == "refuses all" else None)
            stage.context.groups[GROUP] = group
            group.partition_check = check if kind == "refuses one partition" else None
        return stage

    one_by_one, together = make_stage(), make_stage()
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


def test_partitions_that_do_not_exist_are_refused_and_the_others_are_not(stage: OffsetStage) -> None:
    request = commit_request({"nowhere": {0: 7}, "orders": {-1: 7, 0: 7, 3: 7}})

    response = stage.answer(stage.offsets.commit(request, version=COMMIT_VERSION))

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors_of(response) == [unknown, unknown, ErrorCode.NONE, unknown]
    assert stored(stage) == {("orders", 0): 7}


def test_topics_may_be_named_by_id(stage: OffsetStage) -> None:
    request = commit_request({"nowhere": {0: 7}, "orders": {0: 7, 3: 7}}, by_id=True)

    response = stage.answer(stage.offsets.commit(request, version=10))

    assert errors_of(response) == [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert [topic.topic_id for topic in response.topics] == [topic_id_of("nowhere"), topic_id_of("orders")]
    assert stored(stage) == {("orders", 0): 7}


def test_no_id_is_an_unknown_id(stage: OffsetStage) -> None:
    response = stage.answer(stage.offsets.commit(commit_request({"orders": {0: 7}}), version=10))

    assert errors_of(response) == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_a_note_may_have_so_many_characters_as_java_counts_them() -> None:
    stage = OffsetStage({"offset.metadata.max.bytes": "4"})

    def error_of(note: str | None) -> ErrorCode:
        request = commit_request({"orders": {0: 7}}, metadata=note)
        return errors_of(stage.answer(stage.offsets.commit(request, version=COMMIT_VERSION)))[0]

    assert error_of("1234") is ErrorCode.NONE
    assert error_of("12345") is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert error_of("äöüß") is ErrorCode.NONE
    assert error_of("\N{GRINNING FACE}\N{GRINNING FACE}") is ErrorCode.NONE
    assert error_of("\N{GRINNING FACE}\N{GRINNING FACE}!") is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert error_of(None) is ErrorCode.NONE


def test_a_note_and_a_leader_epoch_are_kept(stage: OffsetStage) -> None:
    request = commit_request({"orders": {0: 7}}, metadata="by hand")
    request.topics[0].partitions[0].committed_leader_epoch = 3

    stage.play(stage.offsets.commit(request, version=COMMIT_VERSION))

    answer = stage.offsets.fetch(fetch_request(), require_stable=False, version=FETCH_VERSION)
    assert told(answer) == {("orders", 0): (7, 3, "by hand", ErrorCode.NONE)}


def test_no_note_is_stored_as_an_empty_one(stage: OffsetStage) -> None:
    stage.play(
        stage.offsets.commit(commit_request({"orders": {0: 7}}, metadata=None), version=COMMIT_VERSION)
    )

    assert value_of(stage)[0].metadata == ""


def test_a_commit_is_stamped_with_the_time_and_the_topic_id(stage: OffsetStage) -> None:
    commit(stage, {"orders": {0: 7}})

    value, version = value_of(stage)
    assert (value.commit_timestamp, value.expire_timestamp) == (stage.context.wall_ms(), -1)
    assert (value.topic_id, version) == (topic_id_of("orders"), NEWEST)


def test_a_timestamp_of_version_1_is_kept(stage: OffsetStage) -> None:
    request = commit_request({"orders": {0: 7}})
    request.topics[0].partitions[0].commit_timestamp = 1_000

    stage.play(stage.offsets.commit(request, version=1))

    assert value_of(stage)[0].commit_timestamp == 1_000


def test_a_retention_time_of_versions_2_to_4_is_kept_in_the_record_version_that_has_it(
    stage: OffsetStage,
) -> None:
    request = commit_request({"orders": {0: 7}})
    request.retention_time_ms = 5_000

    stage.play(stage.offsets.commit(request, version=4))

    value, version = value_of(stage)
    assert (value.expire_timestamp, version) == (stage.context.wall_ms() + 5_000, 1)


def test_a_retention_time_beyond_the_end_of_time_does_not_fail_the_commit(stage: OffsetStage) -> None:
    request = commit_request({"orders": {0: 7}})
    request.retention_time_ms = LAST_TIMESTAMP

    stage.play(stage.offsets.commit(request, version=4))

    value, version = value_of(stage)
    assert value.expire_timestamp == LAST_TIMESTAMP
    assert codec(OffsetCommitValue, version).encode(value), "it can be written"


def test_a_commit_of_nothing_writes_nothing(stage: OffsetStage) -> None:
    response = stage.answer(stage.offsets.commit(commit_request({}), version=COMMIT_VERSION))

    assert not response.topics
    assert not stage.log
    assert GROUP not in stage.context.groups


# -- questions


def test_only_committed_offsets_are_told_unless_stable_ones_are_asked_for(stage: OffsetStage) -> None:
    commit(stage, {"orders": {0: 7}})
    stage.is_committing = False
    commit(stage, {"orders": {0: 8, 1: 1}})

    assert stored(stage) == {("orders", 0): 7}
    assert stored(stage, newest=True) == {("orders", 0): 8, ("orders", 1): 1}
    stage.commit()
    assert stored(stage) == {("orders", 0): 8, ("orders", 1): 1}


def test_a_deletion_that_is_not_committed_is_not_told_either(stage: OffsetStage) -> None:
    commit(stage, {"orders": {0: 7}})
    stage.is_committing = False
    stage.play(stage.offsets.delete(delete_request({"orders": [0]})))
    assert not stored(stage, newest=True)
    commit(stage, {"orders": {1: 1}})

    assert stored(stage) == {("orders", 0): 7}
    stage.commit()
    assert stored(stage) == {("orders", 1): 1}


@pytest.mark.parametrize("is_stable", [False, True])
def test_where_there_is_no_offset_minus_one_is_told(stage: OffsetStage, is_stable: bool) -> None:
    commit(stage, {"orders": {0: 7}})
    request = fetch_request({"orders": [0, 1, 99], "nowhere": [0]})

    response = stage.offsets.fetch(request, require_stable=is_stable, version=FETCH_VERSION)

    assert told(response) == {
        ("orders", 0): (7, -1, "", ErrorCode.NONE),
        ("orders", 1): NOTHING,
        ("orders", 99): NOTHING,
        ("nowhere", 0): NOTHING,
    }


def test_a_group_that_is_not_there_has_no_offsets(stage: OffsetStage) -> None:
    some = stage.offsets.fetch(fetch_request({"orders": [0]}), require_stable=False, version=FETCH_VERSION)
    every = stage.offsets.fetch(fetch_request(), require_stable=False, version=FETCH_VERSION)

    assert told(some) == {("orders", 0): NOTHING}
    assert every.topics == []
    assert every.error_code is ErrorCode.NONE


def test_neither_has_a_dead_one(stage: OffsetStage) -> None:
    commit(stage, {"orders": {0: 7}})
    stage.context.groups[GROUP] = ObedientGroup(refuses=ErrorCode.GROUP_ID_NOT_FOUND)

    response = stage.offsets.fetch(
        fetch_request({"orders": [0]}), require_stable=False, version=FETCH_VERSION
    )

    assert told(response) == {("orders", 0): NOTHING}


def test_a_group_that_is_taking_another_type_keeps_its_offsets_meanwhile(stage: OffsetStage) -> None:
    commit(stage, {"orders": {0: 7}})
    stage.context.groups[GROUP] = ObedientGroup(refuses=ErrorCode.GROUP_ID_NOT_FOUND)  # as it was, it is dead
    stage.is_committing = False
    commit(stage, {"payments": {0: 1}}, group="another")
    stage.context.groups[GROUP] = ObedientGroup()

    response = stage.offsets.fetch(
        fetch_request({"orders": [0]}), require_stable=False, version=FETCH_VERSION
    )

    assert told(response) == {("orders", 0): (7, -1, "", ErrorCode.NONE)}


def test_a_group_that_is_being_deleted_keeps_its_offsets_until_that_is_committed(stage: OffsetStage) -> None:
    commit(stage, {"orders": {0: 7}})
    stage.is_committing = False

    stage.answer(stage.administration.delete([GROUP]))

    assert stored(stage) == {("orders", 0): 7}
    stage.commit()
    assert stored(stage) == {}


def test_the_group_decides_who_may_ask(stage: OffsetStage) -> None:
    group = stage.context.groups[GROUP] = ObedientGroup(refuses=ErrorCode.STALE_MEMBER_EPOCH)
    request = fetch_request({"orders": [0]})
    request.member_id, request.member_epoch = "m", 4

    with pytest.raises(Refused) as refusal:
        stage.offsets.fetch(request, require_stable=False, version=FETCH_VERSION)

    assert refusal.value.error is ErrorCode.STALE_MEMBER_EPOCH
    assert group.asked == [{"member_id": "m", "member_epoch": 4}]


def test_topics_may_be_asked_for_by_id(stage: OffsetStage) -> None:
    commit(stage, {"orders": {0: 7}})

    response = stage.offsets.fetch(
        fetch_request({"orders": [0], "nowhere": [0]}, by_id=True), require_stable=False, version=10
    )

    orders, nowhere = response.topics
    assert (orders.topic_id, orders.partitions[0].committed_offset) == (topic_id_of("orders"), 7)
    assert nowhere.partitions[0].error_code is ErrorCode.UNKNOWN_TOPIC_ID
    assert nowhere.partitions[0].committed_offset == -1


def test_an_offset_of_an_older_topic_of_that_name_is_not_told_by_id(stage: OffsetStage) -> None:
    old = OffsetCommitValue(offset=7, metadata="", commit_timestamp=0, topic_id=topic_id_of("old"))
    unknown = OffsetCommitValue(offset=8, metadata="", commit_timestamp=0)
    stage.load(
        [
            CoordinatorRecord(OffsetCommitKey(group=GROUP, topic="orders", partition=0), old),
            CoordinatorRecord(OffsetCommitKey(group=GROUP, topic="orders", partition=1), unknown),
        ]
    )

    response = stage.offsets.fetch(
        fetch_request({"orders": [0, 1]}, by_id=True), require_stable=False, version=10
    )

    assert [partition.committed_offset for partition in response.topics[0].partitions] == [-1, 8]
    assert stored(stage) == {("orders", 0): 7, ("orders", 1): 8}, "by name it is"


def test_all_topics_come_with_their_ids_from_version_10_on(stage: OffsetStage) -> None:
    commit(stage, {"orders": {0: 7}, "payments": {0: 1}})
    stage.cluster.delete_topic("payments")

    by_name = stage.offsets.fetch(fetch_request(), require_stable=False, version=9)
    by_id = stage.offsets.fetch(fetch_request(), require_stable=False, version=10)

    assert [topic.name for topic in by_name.topics] == ["orders", "payments"]
    assert [topic.topic_id for topic in by_name.topics] == [ZERO_UUID, ZERO_UUID]
    assert [topic.topic_id for topic in by_id.topics] == [topic_id_of("orders")], "the other one is gone"


# -- deletions


def test_offsets_are_deleted_by_hand(stage: OffsetStage) -> None:
    commit(stage, {"orders": {0: 7, 1: 8}})

    response = stage.answer(stage.offsets.delete(delete_request({"orders": [0, 2, 3], "nowhere": [0]})))

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [partition.error_code for topic in response.topics for partition in topic.partitions] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        unknown,
        unknown,
    ]
    assert stored(stage) == {("orders", 1): 8}
    assert sum(record.value is None for record in stage.log) == 1, "no record where there is no offset"


def test_offsets_of_a_topic_that_is_read_are_not_deleted_by_hand(stage: OffsetStage) -> None:
    commit(stage, {"orders": {0: 7}, "payments": {0: 1}})
    stage.context.groups[GROUP] = ObedientGroup(subscribed=["orders"])

    response = stage.answer(stage.offsets.delete(delete_request({"orders": [0], "payments": [0]})))

    assert [topic.partitions[0].error_code for topic in response.topics] == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.NONE,
    ]
    assert stored(stage) == {("orders", 0): 7}


def test_offsets_of_a_group_that_is_not_there_cannot_be_deleted(stage: OffsetStage) -> None:
    with pytest.raises(Refused) as refusal:
        stage.offsets.delete(delete_request({"orders": [0]}))

    assert refusal.value.error is ErrorCode.GROUP_ID_NOT_FOUND


def test_the_group_decides_whether_offsets_may_be_deleted(stage: OffsetStage) -> None:
    stage.context.groups[GROUP] = ObedientGroup(refuses=ErrorCode.NON_EMPTY_GROUP)

    with pytest.raises(Refused) as refusal:
        stage.offsets.delete(delete_request({"orders": [0]}))

    assert refusal.value.error is ErrorCode.NON_EMPTY_GROUP


def changes_of(stage: OffsetStage) -> list[MetadataDelta]:
    changes: list[MetadataDelta] = []
    stage.cluster.metadata.subscribe(changes.append)
    return changes


def test_offsets_go_with_their_topic(stage: OffsetStage) -> None:
    commit(stage, {"orders": {0: 7, 1: 8}, "payments": {0: 1}})
    commit(stage, {"orders": {2: 9}}, group="others")
    changes = changes_of(stage)

    stage.cluster.delete_topic("orders")
    records = stage.offsets.metadata_changed(changes[0])
    stage.load(records)

    assert len(records) == 3
    assert stored(stage) == {("payments", 0): 1}
    assert stored(stage, group="others") == {}


def test_a_newer_topic_of_the_same_name_keeps_its_offsets(stage: OffsetStage) -> None:
    commit(stage, {"orders": {0: 7}})
    new_id = topic_id_of("newer")
    newer = OffsetCommitValue(offset=1, metadata="", commit_timestamp=0, topic_id=new_id)
    stage.load([CoordinatorRecord(OffsetCommitKey(group=GROUP, topic="orders", partition=1), newer)])
    changes = changes_of(stage)

    stage.cluster.delete_topic("orders")
    stage.cluster.publish(TopicRecord(name="orders", topic_id=new_id))
    stage.load([record for delta in changes for record in stage.offsets.metadata_changed(delta)])

    assert stored(stage) == {("orders", 1): 1}


# -- a new owner


def test_records_of_brokers_before_0_9_are_read(stage: OffsetStage) -> None:
    key = LegacyOffsetCommitKey(group=GROUP, topic="orders", partition=0)
    value = LegacyOffsetCommitValue(offset=7, metadata="old", commit_timestamp=5)

    stage.load([CoordinatorRecord(key, value)])
    answer = stage.offsets.fetch(fetch_request(), require_stable=False, version=FETCH_VERSION)
    assert told(answer) == {("orders", 0): (7, -1, "old", ErrorCode.NONE)}

    stage.load([CoordinatorRecord(key, None)])
    assert stored(stage) == {}


def test_a_tombstone_of_an_offset_that_is_not_there_is_nothing(stage: OffsetStage) -> None:
    stage.load([CoordinatorRecord(OffsetCommitKey(group=GROUP, topic="orders", partition=0), None)])

    assert stored(stage) == {}
    assert GROUP not in stage.context.groups


partitions = st.sampled_from([("orders", 0), ("orders", 1), ("orders", 2), ("payments", 0)])
groups = st.sampled_from(["a", "b"])
steps = st.one_of(
    st.tuples(st.just("commit"), groups, partitions, st.integers(0, 100)),
    st.tuples(st.just("delete"), groups, partitions, st.just(0)),
    st.tuples(st.just("delete group"), groups, partitions, st.just(0)),
)


@given(st.lists(steps, max_size=30), st.integers(0, 30))
@settings(max_examples=80, deadline=None)
def test_a_new_owner_gives_the_same_answers(
    taken: list[tuple[str, str, tuple[str, int], int]], committed_count: int
) -> None:
    stage = OffsetStage()
    stage.classic.loaded()
    model: dict[tuple[str, str, int], int] = {}
    at_commit = model
    for number, (what, group, (topic, partition), offset) in enumerate(taken):
        if number == committed_count:
            at_commit = dict(model)
            stage.is_committing = False
        if what == "commit":
            commit(stage, {topic: {partition: offset}}, group=group)
            model[group, topic, partition] = offset
        elif what == "delete" and group in stage.context.groups:
            stage.play(stage.offsets.delete(delete_request({topic: [partition]}, group=group)))
            model.pop((group, topic, partition), None)
        elif what == "delete group" and stage.is_committing:  # a classic group is dead at once
            stage.play(stage.administration.delete([group]))
            model = {key: value for key, value in model.items() if key[0] != group}
    if committed_count >= len(taken):
        at_commit = model

    def seen(owner: OffsetStage, *, newest: bool) -> dict[tuple[str, str, int], int]:
        return {
            (group, *place): offset
            for group in ("a", "b")
            for place, offset in stored(owner, group=group, newest=newest).items()
        }

    assert seen(stage, newest=True) == model
    assert seen(stage, newest=False) == at_commit
    assert seen(stage.reloaded(), newest=False) == model
