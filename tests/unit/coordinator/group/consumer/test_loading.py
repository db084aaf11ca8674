"""A new coordinator goes on where the last one was; readers see what is committed."""

from __future__ import annotations

import pytest

from harness.consumer_groups import GROUP, REBALANCE_MS, SESSION_MS, ConsumerStage, HonestMember, settle
from harness.mixed_groups import CLASSIC_SESSION_MS, ClassicConsumer
from penstock.coordinator.group.consumer.member import ConsumerMember, MemberState
from penstock.coordinator.group.records.consumer import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    OwnedTopicPartitions,
)
from penstock.coordinator.outcome import CoordinatorRecord
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode

WATER = {("water", index) for index in range(6)}


@pytest.fixture
def stage() -> ConsumerStage:
    stage = ConsumerStage()
    stage.create_topic("water", 6)
    return stage


def test_everything_is_as_it_was(stage: ConsumerStage) -> None:
    members = [HonestMember(stage, name) for name in ("one", "two")]
    settle(stage, *members)

    other = stage.reloaded()

    assert dict(other.group.members.items()) == dict(stage.group.members.items())
    assert dict(other.group.targets.items()) == dict(stage.group.targets.items())
    assert (other.group.epoch, other.group.metadata_hash) == (stage.group.epoch, stage.group.metadata_hash)
    assert other.group.target_epoch == stage.group.target_epoch
    assert other.consumer.describe(GROUP) == stage.consumer.describe(GROUP)
    for member in members:
        member.stage = other
        assert member.heartbeat().error_code is ErrorCode.NONE
    assert len(other.log) == len(stage.compacted())  # nothing had to be written


def test_members_that_never_come_back_are_put_out(stage: ConsumerStage) -> None:
    stage.heartbeat("one", topics=["water"])

    other = stage.reloaded()
    other.advance(SESSION_MS)

    assert not other.group.members


def test_who_was_to_give_up_partitions_still_has_to(stage: ConsumerStage) -> None:
    stage.heartbeat("one", topics=["water"])
    stage.heartbeat("two", topics=["water"])
    stage.heartbeat("one", 2)
    other = stage.reloaded()

    for _ in range(REBALANCE_MS // 10_000):
        assert other.heartbeat("one", 2).error_code is ErrorCode.NONE
        other.heartbeat("two", 3)
        other.advance(10_000)

    assert list(other.group.members) == ["two"]


def test_a_classic_member_that_was_to_give_up_partitions_has_its_time_from_when_it_is_told_again(
    stage: ConsumerStage,
) -> None:
    old, new = with_classic_member(stage)
    third = HonestMember(stage, "third")
    third.heartbeat()
    old.join()  # it goes on reading, and is told what it may keep
    assert stage.group.members[old.member_id].state is MemberState.UNREVOKED_PARTITIONS

    other = stage.reloaded()
    for member in (old, new, third):
        member.stage = other

    def pass_time() -> None:
        for _ in range(4):
            other.advance(REBALANCE_MS // 4)
            for member in (old, new, third):
                member.heartbeat()

    pass_time()
    assert old.last_error is ErrorCode.REBALANCE_IN_PROGRESS
    pass_time()
    assert old.last_error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_member_has_its_own_session_after_loading(stage: ConsumerStage) -> None:
    old, _ = with_classic_member(stage)

    other = stage.reloaded()
    other.advance(CLASSIC_SESSION_MS - 1)
    assert old.member_id in other.group.members
    other.advance(1)

    assert old.member_id not in other.group.members


def with_classic_member(stage: ConsumerStage) -> tuple[ClassicConsumer, HonestMember]:
    old, new = ClassicConsumer(stage, "old"), HonestMember(stage, "new")
    for _ in range(12):
        new.heartbeat()
        old.step()
        stage.advance(1_000)
    assert [len(old.owned), len(new.owned)] == [3, 3]
    return old, new


def test_topics_that_changed_meanwhile_are_noticed(stage: ConsumerStage) -> None:
    one = HonestMember(stage, "one")
    one.heartbeat()
    other = stage.reloaded()
    other.grow_topic("water", 7)
    one.stage = other

    one.heartbeat()

    assert one.owned == WATER | {("water", 6)}


def test_a_group_that_is_gone_is_not_loaded(stage: ConsumerStage) -> None:
    stage.heartbeat("one", topics=["water"])
    stage.heartbeat("one", -1)
    stage.load(stage.group.tombstones())

    assert GROUP not in stage.reloaded().context.groups


def test_epochs_that_older_software_did_not_write_are_those_of_the_member() -> None:
    stage = ConsumerStage()
    id_ = b"\x01" * 16
    stage.load(
        [
            CoordinatorRecord(
                ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="one"),
                ConsumerGroupCurrentMemberAssignmentValue(
                    member_epoch=7,
                    previous_member_epoch=6,
                    state=0,
                    assigned_partitions=[OwnedTopicPartitions(topic_id=id_, partitions=[0, 4])],  # type: ignore[arg-type]
                    partitions_pending_revocation=[],
                ),
            )
        ]
    )

    assert stage.group.members["one"].assigned == {id_: {0: 7, 4: 7}}


def test_a_state_of_newer_software_makes_a_member_begin_anew(stage: ConsumerStage) -> None:
    stage.heartbeat("one", topics=["water"])
    value = stage.log[-1].value
    assert isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
    value.state = 5
    stage.grow_topic("water", 7)
    other = stage.reloaded()
    assert other.group.members["one"].state is MemberState.UNKNOWN

    assert other.heartbeat("one", 2).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    response = other.heartbeat("one", 0, topics=["water"])

    assert response.error_code is ErrorCode.NONE
    assert other.group.members["one"].state is MemberState.STABLE


def test_what_kafka_40_wrote_of_topics_is_cleaned_away(stage: ConsumerStage) -> None:
    stage.heartbeat("one", topics=["water"])
    key = ConsumerGroupPartitionMetadataKey(group_id=GROUP)
    stage.load([CoordinatorRecord(key, ConsumerGroupPartitionMetadataValue(topics=[]))])
    stage.grow_topic("water", 7)

    stage.heartbeat("one", 2)

    assert CoordinatorRecord(key, None) in stage.log
    assert not stage.group.has_topics_record


def test_tombstones_of_what_was_never_there_mean_nothing() -> None:
    stage = ConsumerStage()
    stage.create_topic("water", 1)
    stage.heartbeat("one", topics=["water"])
    stage.heartbeat("one", -1)
    tombstones = stage.group.tombstones_of(["one", "somebody"])

    other = ConsumerStage()
    other.load(tombstones)

    assert GROUP not in other.context.groups


# -- committed reads


def test_describe_shows_what_is_committed(stage: ConsumerStage) -> None:
    stage.heartbeat("one", topics=["water"])
    before = stage.consumer.describe(GROUP)
    stage.is_committing = False

    stage.heartbeat("two", topics=["water"])
    assert stage.consumer.describe(GROUP) == before
    assert stage.group.state_name(committed=True) == "Stable"
    assert stage.group.state_name() == "Reconciling"
    stage.commit()

    described = stage.consumer.describe(GROUP)
    assert described.group_state == "Reconciling"
    assert [member.member_id for member in described.members] == ["one", "two"]


def test_describe_tells_who_has_what_and_shall_have(stage: ConsumerStage) -> None:
    stage.heartbeat("one", topics=["water"], rack_id="r1", instance_id="shelf-1")
    stage.heartbeat("two", topics=["water"])
    stage.heartbeat("one", 2, instance_id="shelf-1")

    group = stage.consumer.describe(GROUP)
    one, two = group.members

    assert (group.group_epoch, group.assignment_epoch, group.assignor_name) == (3, 3, "uniform")
    assert (one.member_epoch, one.instance_id, one.rack_id, one.member_type) == (2, "shelf-1", "r1", 1)
    assert one.subscribed_topic_names == ["water"]
    assert [topic.partitions for topic in one.assignment.topic_partitions] == [[0, 1, 2, 3, 4, 5]]
    assert [topic.topic_name for topic in one.assignment.topic_partitions] == ["water"]
    assert [topic.partitions for topic in one.target_assignment.topic_partitions] == [[0, 1, 2]]
    assert two.assignment.topic_partitions == []
    assert [topic.partitions for topic in two.target_assignment.topic_partitions] == [[3, 4, 5]]


def test_a_group_that_is_none_cannot_be_described(stage: ConsumerStage) -> None:
    with pytest.raises(Refused) as refused:
        stage.consumer.describe("nobody")

    assert refused.value.error is ErrorCode.GROUP_ID_NOT_FOUND


def test_two_owners_in_the_log_leave_the_later_one(
    stage: ConsumerStage, caplog: pytest.LogCaptureFixture
) -> None:
    """It cannot happen, and if it did, a coordinator that refuses to load would help nobody."""
    id_ = stage.id_of("water")
    stage.heartbeat("one", topics=["water"])
    stage.group.put_member(ConsumerMember("two", epoch=2, assigned={id_: {0: 2}}))

    assert stage.group.owner_of(id_, 0) == "two"
    assert "both have partition 0" in caplog.text
