"""A classic group as offsets and administrators see it."""

from __future__ import annotations

import pytest

from harness.classic_groups import GROUP, SESSION_MS, ClassicStage, subscription
from harness.groups import START_WALL_MS
from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.state import State
from penstock.coordinator.group.group import GroupType
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode

CONNECT = {"protocol_type": "connect", "protocols": {"default": b""}}


@pytest.fixture
def stage() -> ClassicStage:
    return ClassicStage()


def commit_error(
    group: ClassicGroup,
    member_id: str = "",
    generation: int = -1,
    *,
    instance_id: str | None = None,
    is_transactional: bool = False,
) -> ErrorCode:
    try:
        group.check_offset_commit(
            member_id=member_id,
            instance_id=instance_id,
            generation_or_epoch=generation,
            is_transactional=is_transactional,
            version=9,
        )
    except Refused as refusal:
        return refusal.error
    return ErrorCode.NONE


# -- commits


def test_anybody_may_commit_for_a_simple_group(stage: ClassicStage) -> None:
    group = ClassicGroup(stage.context, GROUP)

    assert commit_error(group) is ErrorCode.NONE
    assert commit_error(group, "somebody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.is_simple
    assert group.protocol_type == ""
    assert group.type is GroupType.CLASSIC


def test_nobody_from_outside_may_commit_for_a_group_with_members(stage: ClassicStage) -> None:
    stage.stabilize({})

    assert commit_error(stage.group()) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_error(stage.group(), is_transactional=True) is ErrorCode.NONE, (
        "older versions tell nothing else"
    )


def test_a_member_commits_in_its_generation(stage: ClassicStage) -> None:
    (member,) = stage.stabilize({})

    assert commit_error(stage.group(), member.member_id, 1) is ErrorCode.NONE
    assert commit_error(stage.group(), member.member_id, 0) is ErrorCode.ILLEGAL_GENERATION
    assert commit_error(stage.group(), member.member_id, 2) is ErrorCode.ILLEGAL_GENERATION
    assert commit_error(stage.group(), member.member_id, -1) is ErrorCode.ILLEGAL_GENERATION
    assert commit_error(stage.group(), "somebody", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_commits_while_a_rebalance_begins(stage: ClassicStage) -> None:
    (member,) = stage.stabilize({})
    stage.enter()

    assert commit_error(stage.group(), member.member_id, 1) is ErrorCode.NONE


def test_a_member_does_not_commit_before_its_assignment(stage: ClassicStage) -> None:
    (member,) = stage.assemble({})

    assert commit_error(stage.group(), member.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert commit_error(stage.group(), member.member_id, 1, is_transactional=True) is ErrorCode.NONE


def test_a_fenced_static_member_does_not_commit(stage: ClassicStage) -> None:
    (member,) = stage.stabilize({"instance_id": "shelf-1"})
    stage.join(instance_id="shelf-1")

    error = commit_error(stage.group(), member.member_id, 1, instance_id="shelf-1")

    assert error is ErrorCode.FENCED_INSTANCE_ID
    assert (
        commit_error(stage.group(), member.member_id, 1, instance_id="shelf-2") is ErrorCode.UNKNOWN_MEMBER_ID
    )


def test_a_commit_is_a_sign_of_life(stage: ClassicStage) -> None:
    (member,) = stage.stabilize({})

    for _ in range(5):
        stage.advance(SESSION_MS - 1)
        assert commit_error(stage.group(), member.member_id, 1) is ErrorCode.NONE


def test_a_dead_group_takes_no_commits(stage: ClassicStage) -> None:
    stage.stabilize({})
    stage.classic.unloaded()

    assert commit_error(stage.group()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(Refused) as refused:
        stage.group().check_offset_fetch(member_id=None, member_epoch=-1)
    assert refused.value.error is ErrorCode.GROUP_ID_NOT_FOUND


# -- subscriptions


def test_a_group_knows_what_its_members_read(stage: ClassicStage) -> None:
    stage.stabilize(
        {"protocols": {"range": subscription("one", "two", version=0)}},
        {"protocols": {"range": subscription("three", version=3)}},
    )

    assert stage.group().subscribed_topics == {"one", "two", "three"}
    assert stage.group().is_subscribed_to("two")
    assert not stage.group().is_subscribed_to("four")


@pytest.mark.parametrize("nonsense", [b"", b"\x00", b"\x00\x00\x7f\xff\xff\xff"])
def test_metadata_that_is_no_subscription_may_mean_any_topic(stage: ClassicStage, nonsense: bytes) -> None:
    stage.stabilize({"protocols": {"range": nonsense}})

    assert stage.group().subscribed_topics is None
    assert stage.group().is_subscribed_to("any")


def test_an_empty_group_reads_nothing(stage: ClassicStage) -> None:
    (member,) = stage.stabilize({})
    stage.leave(member.member_id)

    assert not stage.group().is_subscribed_to("topic")
    assert not stage.successor().group().is_subscribed_to("topic")


def test_what_other_types_of_groups_read_is_not_known_and_not_kept(stage: ClassicStage) -> None:
    stage.stabilize(CONNECT)

    assert stage.group().subscribed_topics is None
    assert not stage.group().is_subscribed_to("topic")
    assert not stage.group().is_using_consumer_protocol


def test_subscriptions_count_from_the_generation_on_that_has_them(stage: ClassicStage) -> None:
    one, two = stage.stabilize({}, {})
    stage.join(two.member_id, protocols={"range": subscription("another")})
    assert not stage.group().is_subscribed_to("another")

    stage.join(one.member_id)

    assert stage.group().subscribed_topics == {"topic", "another"}


# -- expiry


def test_offsets_of_a_simple_group_expire_after_their_commit(stage: ClassicStage) -> None:
    group = ClassicGroup(stage.context, GROUP)

    assert group.offsets_expire_from_ms(17, topic="topic") == 17
    assert not group.is_kept_without_offsets


def test_offsets_of_an_empty_group_expire_after_it_became_empty(stage: ClassicStage) -> None:
    (member,) = stage.stabilize({})
    emptied_ms = START_WALL_MS + stage.clock_ms - 1_000_000
    stage.leave(member.member_id)
    stage.advance(1_000)

    assert stage.group().offsets_expire_from_ms(17, topic="topic") == emptied_ms
    assert stage.successor().group().offsets_expire_from_ms(17, topic="topic") == emptied_ms
    assert not stage.group().is_kept_without_offsets


def test_without_a_timestamp_in_the_record_they_expire_after_their_commit(stage: ClassicStage) -> None:
    (member,) = stage.stabilize({})
    stage.leave(member.member_id)
    stage.group().state_since_ms = None

    assert stage.group().offsets_expire_from_ms(17, topic="topic") == 17


def test_what_a_stable_group_reads_does_not_expire_and_what_it_no_longer_reads_does(
    stage: ClassicStage,
) -> None:
    stage.stabilize({})

    assert stage.group().offsets_expire_from_ms(17, topic="topic") is None
    assert stage.group().offsets_expire_from_ms(17, topic="another") == 17
    assert stage.group().is_kept_without_offsets


def test_nothing_expires_during_a_rebalance(stage: ClassicStage) -> None:
    stage.stabilize({})
    stage.enter()

    assert stage.group().offsets_expire_from_ms(17, topic="another") is None


def test_nothing_expires_in_a_group_whose_subscriptions_are_not_known(stage: ClassicStage) -> None:
    stage.stabilize(CONNECT)

    assert stage.group().offsets_expire_from_ms(17, topic="topic") is None


def test_a_group_that_expects_somebody_is_kept(stage: ClassicStage) -> None:
    stage.join()

    assert stage.group().state is State.EMPTY
    assert stage.group().is_kept_without_offsets
    stage.advance(SESSION_MS)
    assert not stage.group().is_kept_without_offsets


# -- deletion


def test_only_an_empty_group_may_be_deleted(stage: ClassicStage) -> None:
    (member,) = stage.stabilize({})
    with pytest.raises(Refused) as refused:
        stage.group().check_delete()
    assert refused.value.error is ErrorCode.NON_EMPTY_GROUP

    stage.leave(member.member_id)

    stage.group().check_delete()
    (tombstone,) = stage.group().tombstones()
    assert tombstone.key.group == GROUP
    assert tombstone.value is None


def test_offsets_of_members_whose_subscriptions_are_known_may_be_deleted(stage: ClassicStage) -> None:
    stage.stabilize({})
    stage.group().check_offset_delete()


def test_offsets_of_other_members_may_not_be_deleted(stage: ClassicStage) -> None:
    (member,) = stage.stabilize(CONNECT)
    with pytest.raises(Refused) as refused:
        stage.group().check_offset_delete()
    assert refused.value.error is ErrorCode.NON_EMPTY_GROUP

    stage.leave(member.member_id)

    stage.group().check_offset_delete()


# -- describing


def test_a_stable_group_is_described_with_metadata_and_assignments(stage: ClassicStage) -> None:
    one, two = stage.stabilize({}, {"instance_id": "shelf-1"})

    described = stage.classic.describe(stage.group())

    assert (described.group_state, described.protocol_type, described.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    assert [member.member_id for member in described.members] == [one.member_id, two.member_id]
    member = described.members[1]
    assert (member.group_instance_id, member.client_id, member.client_host) == (
        "shelf-1",
        "client",
        "/127.0.0.1",
    )
    assert member.member_metadata == subscription("topic")
    assert member.member_assignment == two.member_id.encode()


def test_a_group_in_a_rebalance_is_described_without_metadata(stage: ClassicStage) -> None:
    (one,) = stage.stabilize({})
    stage.enter()

    described = stage.classic.describe(stage.group())

    assert described.group_state == "PreparingRebalance"
    assert described.protocol_data == ""
    assert [member.member_metadata for member in described.members] == [b"", b""]
    assert described.members[0].member_assignment == one.member_id.encode()


def test_an_empty_group_is_described_by_its_type(stage: ClassicStage) -> None:
    (member,) = stage.stabilize({})
    stage.leave(member.member_id)

    described = stage.classic.describe(stage.group())

    assert (described.group_state, described.protocol_type, described.members) == ("Empty", "consumer", [])
