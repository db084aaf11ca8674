"""Loading consumer groups, and reads of committed state."""

from __future__ import annotations

import pytest

from harness.consumer_groups import GROUP, REBALANCE_MS, SESSION_MS, ConsumerHarness, HonestMember, settle
from harness.mixed_groups import CLASSIC_SESSION_MS, ClassicConsumer
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.group.modern.member import MemberState
from penstock.coordinator.group.records.consumer import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    OwnedTopicPartitions,
)
from penstock.coordinator.result import CoordinatorRecord
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode

WATER = {("water", index) for index in range(6)}


@pytest.fixture
def harness() -> ConsumerHarness:
    harness = ConsumerHarness()
    harness.create_topic("water", 6)
    return harness


def test_a_loaded_group_equals_the_original(harness: ConsumerHarness) -> None:
    members = [HonestMember(harness, name) for name in ("one", "two")]
    settle(harness, *members)

    other = harness.reloaded()

    assert dict(other.group.members.items()) == dict(harness.group.members.items())
    assert dict(other.group.targets.items()) == dict(harness.group.targets.items())
    assert (other.group.epoch, other.group.metadata.metadata_hash) == (
        harness.group.epoch,
        harness.group.metadata.metadata_hash,
    )
    assert other.group.target_epoch == harness.group.target_epoch
    assert other.consumer.describe(GROUP) == harness.consumer.describe(GROUP)
    for member in members:
        member.harness = other
        assert member.heartbeat().error_code is ErrorCode.NONE
    assert len(other.log) == len(harness.compacted())  # nothing had to be written


def test_members_that_do_not_return_after_loading_are_removed(harness: ConsumerHarness) -> None:
    harness.heartbeat("one", topics=["water"])

    other = harness.reloaded()
    other.advance(SESSION_MS)

    assert not other.group.members


def test_revocations_continue_after_loading(harness: ConsumerHarness) -> None:
    harness.heartbeat("one", topics=["water"])
    harness.heartbeat("two", topics=["water"])
    harness.heartbeat("one", 2)
    other = harness.reloaded()

    for _ in range(REBALANCE_MS // 10_000):
        assert other.heartbeat("one", 2).error_code is ErrorCode.NONE
        other.heartbeat("two", 3)
        other.advance(10_000)

    assert list(other.group.members) == ["two"]


def test_a_classic_members_time_to_rejoin_restarts_after_loading(
    harness: ConsumerHarness,
) -> None:
    old, new = with_classic_member(harness)
    third = HonestMember(harness, "third")
    third.heartbeat()
    old.join()  # it goes on reading, and gets the partitions that it may keep
    assert harness.group.members[old.member_id].state is MemberState.UNREVOKED

    other = harness.reloaded()
    for member in (old, new, third):
        member.harness = other

    def pass_time() -> None:
        for _ in range(4):
            other.advance(REBALANCE_MS // 4)
            for member in (old, new, third):
                member.heartbeat()

    pass_time()
    assert old.last_error is ErrorCode.REBALANCE_IN_PROGRESS
    pass_time()
    assert old.last_error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_member_keeps_its_session_timeout_after_loading(harness: ConsumerHarness) -> None:
    old, _ = with_classic_member(harness)

    other = harness.reloaded()
    other.advance(CLASSIC_SESSION_MS - 1)
    assert old.member_id in other.group.members
    other.advance(1)

    assert old.member_id not in other.group.members


def with_classic_member(harness: ConsumerHarness) -> tuple[ClassicConsumer, HonestMember]:
    old, new = ClassicConsumer(harness, "old"), HonestMember(harness, "new")
    for _ in range(12):
        new.heartbeat()
        old.step()
        harness.advance(1_000)
    assert [len(old.owned), len(new.owned)] == [3, 3]
    return old, new


def test_topics_that_changed_before_loading_are_noticed(harness: ConsumerHarness) -> None:
    one = HonestMember(harness, "one")
    one.heartbeat()
    other = harness.reloaded()
    other.grow_topic("water", 7)
    one.harness = other

    one.heartbeat()

    assert one.owned == WATER | {("water", 6)}


def test_a_deleted_group_is_not_loaded(harness: ConsumerHarness) -> None:
    harness.heartbeat("one", topics=["water"])
    harness.heartbeat("one", -1)
    harness.load(harness.group.tombstones())

    assert GROUP not in harness.reloaded().context.groups


def test_missing_assignment_epochs_are_read_as_the_member_epoch() -> None:
    harness = ConsumerHarness()
    id_ = b"\x01" * 16
    harness.load(
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

    assert harness.group.members["one"].assigned == {id_: {0: 7, 4: 7}}


def test_a_member_with_an_unknown_state_has_to_rejoin(harness: ConsumerHarness) -> None:
    harness.heartbeat("one", topics=["water"])
    value = harness.log[-1].value
    assert isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
    value.state = 5
    harness.grow_topic("water", 7)
    other = harness.reloaded()
    assert other.group.members["one"].state is MemberState.UNKNOWN

    assert other.heartbeat("one", 2).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    response = other.heartbeat("one", 0, topics=["water"])

    assert response.error_code is ErrorCode.NONE
    assert other.group.members["one"].state is MemberState.STABLE


def test_the_topics_record_of_kafka_40_is_removed(harness: ConsumerHarness) -> None:
    harness.heartbeat("one", topics=["water"])
    key = ConsumerGroupPartitionMetadataKey(group_id=GROUP)
    harness.load([CoordinatorRecord(key, ConsumerGroupPartitionMetadataValue(topics=[]))])
    harness.grow_topic("water", 7)

    harness.heartbeat("one", 2)

    assert CoordinatorRecord(key, None) in harness.log
    assert not harness.group.has_topics_record


def test_tombstones_of_unknown_state_are_ignored() -> None:
    harness = ConsumerHarness()
    harness.create_topic("water", 1)
    harness.heartbeat("one", topics=["water"])
    harness.heartbeat("one", -1)
    tombstones = harness.group.tombstones_of(["one", "unknown-member"])

    other = ConsumerHarness()
    other.load(tombstones)

    assert GROUP not in other.context.groups


# -- committed reads


def test_describe_returns_committed_state(harness: ConsumerHarness) -> None:
    harness.heartbeat("one", topics=["water"])
    before = harness.consumer.describe(GROUP)
    harness.is_committing = False

    harness.heartbeat("two", topics=["water"])
    assert harness.consumer.describe(GROUP) == before
    assert harness.group.state_name(committed=True) == "Stable"
    assert harness.group.state_name() == "Reconciling"
    harness.commit()

    described = harness.consumer.describe(GROUP)
    assert described.group_state == "Reconciling"
    assert [member.member_id for member in described.members] == ["one", "two"]


def test_describe_returns_current_and_target_assignments(harness: ConsumerHarness) -> None:
    harness.heartbeat("one", topics=["water"], rack_id="r1", instance_id="shelf-1")
    harness.heartbeat("two", topics=["water"])
    harness.heartbeat("one", 2, instance_id="shelf-1")

    group = harness.consumer.describe(GROUP)
    one, two = group.members

    assert (group.group_epoch, group.assignment_epoch, group.assignor_name) == (3, 3, "uniform")
    assert (one.member_epoch, one.instance_id, one.rack_id, one.member_type) == (2, "shelf-1", "r1", 1)
    assert one.subscribed_topic_names == ["water"]
    assert [topic.partitions for topic in one.assignment.topic_partitions] == [[0, 1, 2, 3, 4, 5]]
    assert [topic.topic_name for topic in one.assignment.topic_partitions] == ["water"]
    assert [topic.partitions for topic in one.target_assignment.topic_partitions] == [[0, 1, 2]]
    assert two.assignment.topic_partitions == []
    assert [topic.partitions for topic in two.target_assignment.topic_partitions] == [[3, 4, 5]]


def test_an_unknown_group_cannot_be_described(harness: ConsumerHarness) -> None:
    with pytest.raises(Refused) as refused:
        harness.consumer.describe("unknown-member")

    assert refused.value.error is ErrorCode.GROUP_ID_NOT_FOUND


def test_if_the_log_has_two_owners_the_later_one_counts(
    harness: ConsumerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """This should not happen; if it does, the coordinator loads the group anyway."""
    id_ = harness.id_of("water")
    harness.heartbeat("one", topics=["water"])
    harness.group.put_member(ConsumerMember("two", epoch=2, assigned={id_: {0: 2}}))

    assert harness.group.owner_of(id_, 0) == "two"
    assert "both own partition 0" in caplog.text
