"""The `Group` interface of consumer groups."""

from __future__ import annotations

from typing import Any

import pytest

from harness.consumer_groups import GROUP, ConsumerHarness, HonestMember, settle
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode


@pytest.fixture
def harness() -> ConsumerHarness:
    harness = ConsumerHarness()
    harness.create_topic("water", 6)
    return harness


def test_a_member_commits_in_its_epoch_or_for_tasks_it_has_owned_since(harness: ConsumerHarness) -> None:
    one, two = HonestMember(harness, "one"), HonestMember(harness, "two")
    settle(harness, one, two)
    id_ = harness.id_of("water")
    held = min(one.owned)[1]
    lost = min(two.owned)[1]

    assert _commit(harness, "one", one.epoch) is None
    check = _commit(harness, "one", 2)
    assert check is not None
    check(id_, held)
    with pytest.raises(Refused) as refused:
        check(id_, lost)
    assert refused.value.error is ErrorCode.STALE_MEMBER_EPOCH
    with pytest.raises(Refused) as refused:
        _commit(harness, "one", one.epoch + 1)
    assert refused.value.error is ErrorCode.STALE_MEMBER_EPOCH
    newer = _commit(harness, "two", 2)
    assert newer is not None
    with pytest.raises(Refused):
        newer(id_, lost)  # assigned in epoch 3


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"member_id": "unknown-member"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"version": 8}, ErrorCode.UNSUPPORTED_VERSION),
        ({"member_id": "", "generation_or_epoch": -1}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_commits_of_non_members_are_refused(
    harness: ConsumerHarness, fields: dict[str, Any], error: ErrorCode
) -> None:
    harness.heartbeat("one", topics=["water"])
    asked = {
        "member_id": "one",
        "instance_id": None,
        "generation_or_epoch": 2,
        "is_transactional": False,
        "version": 9,
    }

    with pytest.raises(Refused) as refused:
        harness.group.check_offset_commit(**{**asked, **fields})
    assert refused.value.error is error


def test_an_empty_group_accepts_commits_without_a_member(
    harness: ConsumerHarness,
) -> None:
    harness.heartbeat("one", topics=["water"])
    group = harness.group
    assert (
        group.check_offset_commit(
            member_id="", instance_id=None, generation_or_epoch=-1, is_transactional=True, version=5
        )
        is None
    )
    harness.heartbeat("one", -1)
    assert (
        group.check_offset_commit(
            member_id="", instance_id=None, generation_or_epoch=-1, is_transactional=False, version=2
        )
        is None
    )


def test_offsets_are_fetched_by_members_in_their_epoch_or_without_a_member(harness: ConsumerHarness) -> None:
    harness.heartbeat("one", topics=["water"])
    group = harness.group

    group.check_offset_fetch(member_id=None, member_epoch=-1)
    group.check_offset_fetch(member_id="one", member_epoch=2)
    for member_id, epoch, error in (
        ("one", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("two", 2, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(Refused) as refused:
            group.check_offset_fetch(member_id=member_id, member_epoch=epoch)
        assert refused.value.error is error


def test_offsets_of_subscribed_topics_are_kept_and_groups_with_members_too(harness: ConsumerHarness) -> None:
    harness.heartbeat("one", topics=["water"])
    group = harness.group

    assert group.is_subscribed_to("water")
    assert not group.is_subscribed_to("waste")
    assert group.offsets_expire_from_ms(5, topic="water") is None
    assert group.offsets_expire_from_ms(5, topic="waste") == 5
    assert group.is_kept_without_offsets
    with pytest.raises(Refused) as refused:
        group.check_delete()
    assert refused.value.error is ErrorCode.NON_EMPTY_GROUP

    harness.heartbeat("one", -1)
    group.check_delete()
    assert not group.is_kept_without_offsets
    harness.load(group.tombstones())
    assert GROUP not in harness.context.groups


def _commit(harness: ConsumerHarness, member_id: str, epoch: int) -> Any:
    return harness.group.check_offset_commit(
        member_id=member_id,
        instance_id=None,
        generation_or_epoch=epoch,
        is_transactional=False,
        version=9,
    )
