"""A consumer group as offsets and administrators see it."""

from __future__ import annotations

from typing import Any

import pytest

from harness.consumer_groups import GROUP, ConsumerStage, HonestMember, settle
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode


@pytest.fixture
def stage() -> ConsumerStage:
    stage = ConsumerStage()
    stage.create_topic("water", 6)
    return stage


def test_a_member_commits_in_its_epoch_or_for_what_it_has_held_since(stage: ConsumerStage) -> None:
    one, two = HonestMember(stage, "one"), HonestMember(stage, "two")
    settle(stage, one, two)
    id_ = stage.id_of("water")
    held = min(one.owned)[1]
    lost = min(two.owned)[1]

    assert _commit(stage, "one", one.epoch) is None
    check = _commit(stage, "one", 2)
    assert check is not None
    check(id_, held)
    with pytest.raises(Refused) as refused:
        check(id_, lost)
    assert refused.value.error is ErrorCode.STALE_MEMBER_EPOCH
    with pytest.raises(Refused) as refused:
        _commit(stage, "one", one.epoch + 1)
    assert refused.value.error is ErrorCode.STALE_MEMBER_EPOCH
    newer = _commit(stage, "two", 2)
    assert newer is not None
    with pytest.raises(Refused):
        newer(id_, lost)  # it has it since epoch 3


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"version": 8}, ErrorCode.UNSUPPORTED_VERSION),
        ({"member_id": "", "generation_or_epoch": -1}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_others_may_not_commit(stage: ConsumerStage, fields: dict[str, Any], error: ErrorCode) -> None:
    stage.heartbeat("one", topics=["water"])
    asked = {
        "member_id": "one",
        "instance_id": None,
        "generation_or_epoch": 2,
        "is_transactional": False,
        "version": 9,
    }

    with pytest.raises(Refused) as refused:
        stage.group.check_offset_commit(**{**asked, **fields})
    assert refused.value.error is error


def test_an_empty_group_takes_commits_of_administrators_and_of_producers_that_know_no_members(
    stage: ConsumerStage,
) -> None:
    stage.heartbeat("one", topics=["water"])
    group = stage.group
    assert (
        group.check_offset_commit(
            member_id="", instance_id=None, generation_or_epoch=-1, is_transactional=True, version=5
        )
        is None
    )
    stage.heartbeat("one", -1)
    assert (
        group.check_offset_commit(
            member_id="", instance_id=None, generation_or_epoch=-1, is_transactional=False, version=2
        )
        is None
    )


def test_offsets_are_fetched_by_members_in_their_epoch_or_by_anybody(stage: ConsumerStage) -> None:
    stage.heartbeat("one", topics=["water"])
    group = stage.group

    group.check_offset_fetch(member_id=None, member_epoch=-1)
    group.check_offset_fetch(member_id="one", member_epoch=2)
    for member_id, epoch, error in (
        ("one", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("two", 2, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(Refused) as refused:
            group.check_offset_fetch(member_id=member_id, member_epoch=epoch)
        assert refused.value.error is error


def test_offsets_of_subscribed_topics_are_kept_and_groups_with_members_too(stage: ConsumerStage) -> None:
    stage.heartbeat("one", topics=["water"])
    group = stage.group

    assert group.is_subscribed_to("water")
    assert not group.is_subscribed_to("waste")
    assert group.offsets_expire_from_ms(5, topic="water") is None
    assert group.offsets_expire_from_ms(5, topic="waste") == 5
    assert group.is_kept_without_offsets
    with pytest.raises(Refused) as refused:
        group.check_delete()
    assert refused.value.error is ErrorCode.NON_EMPTY_GROUP

    stage.heartbeat("one", -1)
    group.check_delete()
    assert not group.is_kept_without_offsets
    stage.load(group.tombstones())
    assert GROUP not in stage.context.groups


def _commit(stage: ConsumerStage, member_id: str, epoch: int) -> Any:
    return stage.group.check_offset_commit(
        member_id=member_id,
        instance_id=None,
        generation_or_epoch=epoch,
        is_transactional=False,
        version=9,
    )
