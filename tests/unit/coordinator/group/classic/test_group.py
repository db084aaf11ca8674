"""The `Group` interface of classic groups."""

from __future__ import annotations

import pytest

from harness.classic_groups import GROUP, SESSION_MS, ClassicHarness, subscription
from harness.groups import START_WALL_MS
from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.state import State
from penstock.coordinator.group.group import GroupType
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode

CONNECT = {"protocol_type": "connect", "protocols": {"default": b""}}


@pytest.fixture
def harness() -> ClassicHarness:
    return ClassicHarness()


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


def test_a_simple_group_accepts_commits_without_a_member(harness: ClassicHarness) -> None:
    group = ClassicGroup(harness.context, GROUP)

    assert commit_error(group) is ErrorCode.NONE
    assert commit_error(group, "unknown-member", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.protocol_type == ""
    assert group.type is GroupType.CLASSIC


def test_a_group_with_members_accepts_no_commit_without_a_member(harness: ClassicHarness) -> None:
    harness.stabilize({})

    assert commit_error(harness.group()) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_error(harness.group(), is_transactional=True) is ErrorCode.NONE, (
        "older versions do not send a member"
    )


def test_a_member_commits_in_its_generation(harness: ClassicHarness) -> None:
    (member,) = harness.stabilize({})

    assert commit_error(harness.group(), member.member_id, 1) is ErrorCode.NONE
    assert commit_error(harness.group(), member.member_id, 0) is ErrorCode.ILLEGAL_GENERATION
    assert commit_error(harness.group(), member.member_id, 2) is ErrorCode.ILLEGAL_GENERATION
    assert commit_error(harness.group(), member.member_id, -1) is ErrorCode.ILLEGAL_GENERATION
    assert commit_error(harness.group(), "unknown-member", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_may_commit_while_a_rebalance_starts(harness: ClassicHarness) -> None:
    (member,) = harness.stabilize({})
    harness.enter()

    assert commit_error(harness.group(), member.member_id, 1) is ErrorCode.NONE


def test_a_member_does_not_commit_before_its_assignment(harness: ClassicHarness) -> None:
    (member,) = harness.assemble({})

    assert commit_error(harness.group(), member.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert commit_error(harness.group(), member.member_id, 1, is_transactional=True) is ErrorCode.NONE


def test_a_fenced_static_member_does_not_commit(harness: ClassicHarness) -> None:
    (member,) = harness.stabilize({"instance_id": "shelf-1"})
    harness.join(instance_id="shelf-1")

    error = commit_error(harness.group(), member.member_id, 1, instance_id="shelf-1")

    assert error is ErrorCode.FENCED_INSTANCE_ID
    assert (
        commit_error(harness.group(), member.member_id, 1, instance_id="shelf-2")
        is ErrorCode.UNKNOWN_MEMBER_ID
    )


def test_a_commit_extends_the_session(harness: ClassicHarness) -> None:
    (member,) = harness.stabilize({})

    for _ in range(5):
        harness.advance(SESSION_MS - 1)
        assert commit_error(harness.group(), member.member_id, 1) is ErrorCode.NONE


def test_a_dead_group_accepts_no_commits(harness: ClassicHarness) -> None:
    harness.stabilize({})
    harness.classic.unloaded()

    assert commit_error(harness.group()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(Refused) as refused:
        harness.group().check_offset_fetch(member_id=None, member_epoch=-1)
    assert refused.value.error is ErrorCode.GROUP_ID_NOT_FOUND


# -- subscriptions


def test_a_group_knows_the_subscriptions_of_its_members(harness: ClassicHarness) -> None:
    harness.stabilize(
        {"protocols": {"range": subscription("one", "two", version=0)}},
        {"protocols": {"range": subscription("three", version=3)}},
    )

    assert harness.group().subscribed_topics == {"one", "two", "three"}
    assert harness.group().is_subscribed_to("two")
    assert not harness.group().is_subscribed_to("four")


@pytest.mark.parametrize("nonsense", [b"", b"\x00", b"\x00\x00\x7f\xff\xff\xff"])
def test_a_malformed_subscription_counts_as_all_topics(harness: ClassicHarness, nonsense: bytes) -> None:
    harness.stabilize({"protocols": {"range": nonsense}})

    assert harness.group().subscribed_topics is None
    assert harness.group().is_subscribed_to("any")


def test_an_empty_group_has_no_subscriptions(harness: ClassicHarness) -> None:
    (member,) = harness.stabilize({})
    harness.leave(member.member_id)

    assert not harness.group().is_subscribed_to("topic")
    assert not harness.successor().group().is_subscribed_to("topic")


def test_subscriptions_of_other_protocol_types_are_unknown_and_their_offsets_expire(
    harness: ClassicHarness,
) -> None:
    harness.stabilize(CONNECT)

    assert harness.group().subscribed_topics is None
    assert not harness.group().is_subscribed_to("topic")
    assert not harness.group().is_using_consumer_protocol


def test_subscriptions_count_from_their_generation_on(harness: ClassicHarness) -> None:
    one, two = harness.stabilize({}, {})
    harness.join(two.member_id, protocols={"range": subscription("another")})
    assert not harness.group().is_subscribed_to("another")

    harness.join(one.member_id)

    assert harness.group().subscribed_topics == {"topic", "another"}


# -- expiration


def test_offsets_of_a_simple_group_expire_after_their_commit(harness: ClassicHarness) -> None:
    group = ClassicGroup(harness.context, GROUP)

    assert group.offsets_expire_from_ms(17, topic="topic") == 17
    assert not group.is_kept_without_offsets


def test_offsets_of_an_empty_group_expire_after_it_became_empty(harness: ClassicHarness) -> None:
    (member,) = harness.stabilize({})
    emptied_ms = START_WALL_MS + harness.clock_ms - 1_000_000
    harness.leave(member.member_id)
    harness.advance(1_000)

    assert harness.group().offsets_expire_from_ms(17, topic="topic") == emptied_ms
    assert harness.successor().group().offsets_expire_from_ms(17, topic="topic") == emptied_ms
    assert not harness.group().is_kept_without_offsets


def test_without_a_timestamp_in_the_record_they_expire_after_their_commit(harness: ClassicHarness) -> None:
    (member,) = harness.stabilize({})
    harness.leave(member.member_id)
    harness.group().state_since_ms = None

    assert harness.group().offsets_expire_from_ms(17, topic="topic") == 17


def test_only_unsubscribed_topics_of_a_stable_group_expire(
    harness: ClassicHarness,
) -> None:
    harness.stabilize({})

    assert harness.group().offsets_expire_from_ms(17, topic="topic") is None
    assert harness.group().offsets_expire_from_ms(17, topic="another") == 17
    assert harness.group().is_kept_without_offsets


def test_nothing_expires_during_a_rebalance(harness: ClassicHarness) -> None:
    harness.stabilize({})
    harness.enter()

    assert harness.group().offsets_expire_from_ms(17, topic="another") is None


def test_nothing_expires_in_a_group_with_unknown_subscriptions(harness: ClassicHarness) -> None:
    harness.stabilize(CONNECT)

    assert harness.group().offsets_expire_from_ms(17, topic="topic") is None


def test_a_group_with_a_pending_member_is_kept(harness: ClassicHarness) -> None:
    harness.join()

    assert harness.group().state is State.EMPTY
    assert harness.group().is_kept_without_offsets
    harness.advance(SESSION_MS)
    assert not harness.group().is_kept_without_offsets


# -- deletion


def test_only_an_empty_group_may_be_deleted(harness: ClassicHarness) -> None:
    (member,) = harness.stabilize({})
    with pytest.raises(Refused) as refused:
        harness.group().check_delete()
    assert refused.value.error is ErrorCode.NON_EMPTY_GROUP

    harness.leave(member.member_id)

    harness.group().check_delete()
    (tombstone,) = harness.group().tombstones()
    assert tombstone.key.group == GROUP
    assert tombstone.value is None


def test_offsets_of_consumers_may_be_deleted(harness: ClassicHarness) -> None:
    harness.stabilize({})
    harness.group().check_offset_delete()


def test_offsets_of_members_with_another_protocol_type_cannot_be_deleted(harness: ClassicHarness) -> None:
    (member,) = harness.stabilize(CONNECT)
    with pytest.raises(Refused) as refused:
        harness.group().check_offset_delete()
    assert refused.value.error is ErrorCode.NON_EMPTY_GROUP

    harness.leave(member.member_id)

    harness.group().check_offset_delete()


# -- describe


def test_a_stable_group_is_described_with_metadata_and_assignments(harness: ClassicHarness) -> None:
    one, two = harness.stabilize({}, {"instance_id": "shelf-1"})

    described = harness.classic.describe(harness.group())

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


def test_a_group_in_a_rebalance_is_described_without_metadata(harness: ClassicHarness) -> None:
    (one,) = harness.stabilize({})
    harness.enter()

    described = harness.classic.describe(harness.group())

    assert described.group_state == "PreparingRebalance"
    assert described.protocol_data == ""
    assert [member.member_metadata for member in described.members] == [b"", b""]
    assert described.members[0].member_assignment == one.member_id.encode()


def test_an_empty_group_is_described_by_its_type(harness: ClassicHarness) -> None:
    (member,) = harness.stabilize({})
    harness.leave(member.member_id)

    described = harness.classic.describe(harness.group())

    assert (described.group_state, described.protocol_type, described.members) == ("Empty", "consumer", [])
