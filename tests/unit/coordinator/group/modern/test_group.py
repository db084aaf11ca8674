"""The state and the checks that every type of modern group has, with the smallest group that uses them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.coordinator.group.group import GroupType
from penstock.coordinator.group.modern.group import STALE, ModernGroup
from penstock.coordinator.group.modern.member import MemberState, ModernMember
from penstock.coordinator.group.modern.records import GroupMetadata, TargetEpoch, read_epochs
from penstock.coordinator.timeline import Timeline
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Uuid

TOPIC_ID = Uuid(bytes(range(16)))

Assignment = dict[int, int]
"""The partitions of the only topic, with their assignment epochs."""


class OneTopicGroup(ModernGroup[ModernMember[Assignment], Assignment, GroupMetadata]):
    type = GroupType.STREAMS

    def __init__(self, timeline: Timeline | None = None) -> None:
        super().__init__("readers", timeline or Timeline(), GroupMetadata())

    def assignment_epoch_of(
        self, member: ModernMember[Assignment], topic_id: Uuid, partition: int
    ) -> int | None:
        return member.assigned.get(partition)

    def is_subscribed_to(self, topic: str) -> bool:
        return True

    def update_indexes(
        self, before: ModernMember[Assignment] | None, after: ModernMember[Assignment] | None
    ) -> None:
        """It has none."""


def member_with(member_id: str = "one", **fields: Any) -> ModernMember[Assignment]:
    return ModernMember(member_id, **{"assigned": {}, "revoking": {}, **fields})


def group_with(*members: ModernMember[Assignment], epoch: int = 1, target_epoch: int = 1) -> OneTopicGroup:
    group = OneTopicGroup()
    group.set_metadata(GroupMetadata(epoch))
    group.set_target_epoch(TargetEpoch(target_epoch, 0))
    for member in members:
        group.put_member(member)
    return group


# -- states and epochs


@pytest.mark.parametrize(
    ("group", "state"),
    [
        (group_with(), "Empty"),
        (group_with(member_with(epoch=5), epoch=6, target_epoch=5), "Assigning"),
        (group_with(member_with(epoch=5), epoch=6, target_epoch=6), "Reconciling"),
        (
            group_with(member_with(epoch=6, state=MemberState.UNREVOKED), epoch=6, target_epoch=6),
            "Reconciling",
        ),
        (group_with(member_with(epoch=6), epoch=6, target_epoch=6), "Stable"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_state_follows_from_the_epochs_and_the_members(group: OneTopicGroup, state: str) -> None:
    assert group.state_name() == state


def test_the_committed_state_does_not_show_records_that_are_not_committed() -> None:
    timeline = Timeline()
    group = OneTopicGroup(timeline)
    timeline.begin(1, is_committed=False)
    group.put_member(member_with(epoch=1))

    assert (group.state_name(), group.state_name(committed=True)) == ("Stable", "Empty")
    timeline.commit(1)

    assert group.state_name(committed=True) == "Stable"


def test_a_group_is_stale_until_the_epoch_of_its_lookup_is_reached() -> None:
    group = group_with(epoch=5)
    assert group.is_stale
    group.refreshed_epoch = 6  # the log refuses this epoch
    assert group.is_stale
    group.refreshed_epoch = 5
    assert not group.is_stale
    group.refreshed_epoch = STALE
    assert group.is_stale


@pytest.mark.parametrize(
    ("wall_ms", "is_due"), [(10_000, False), (10_999, False), (11_000, True), (9_999, True)]
)
def test_an_assignment_is_due_after_the_interval_and_after_the_clock_was_set_back(
    wall_ms: int, is_due: bool
) -> None:
    group = OneTopicGroup()
    assert group.is_assignment_due(wall_ms=wall_ms, interval_ms=1_000)

    group.set_target_epoch(TargetEpoch(2, 10_000))

    assert group.is_assignment_due(wall_ms=wall_ms, interval_ms=1_000) is is_due


# -- epochs of members


@pytest.mark.parametrize(
    ("epoch", "owns_only_assigned", "is_accepted"),
    [(7, False, True), (6, True, True), (6, False, False), (5, True, False), (8, True, False)],
)
def test_a_member_sends_its_epoch_or_that_of_a_lost_response(
    epoch: int, owns_only_assigned: bool, is_accepted: bool
) -> None:
    member = member_with(epoch=7, previous_epoch=6)
    if is_accepted:
        member.check_epoch(epoch, owns_only_assigned=owns_only_assigned)
        return
    with pytest.raises(Refused) as caught:
        member.check_epoch(epoch, owns_only_assigned=owns_only_assigned)
    assert caught.value.error is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_in_an_unknown_state_must_own_nothing() -> None:
    member = member_with(state=MemberState.UNKNOWN)
    member.check_state(owns_nothing=True)
    with pytest.raises(Refused) as caught:
        member.check_state(owns_nothing=False)
    assert caught.value.error is ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize("epochs", [None, [], [1]])
def test_assignment_epochs_that_are_missing_are_the_member_epoch(epochs: list[int] | None) -> None:
    assert read_epochs([0, 1], epochs, 5) == [5, 5]
    assert read_epochs([0, 1], epochs, -1) == [0, 0]
    assert read_epochs([0, 1], [2, 3], 5) == [2, 3]


# -- offsets


def commit(group: OneTopicGroup, epoch: int, partition: int = 0, **fields: Any) -> ErrorCode:
    request = {"member_id": "one", "instance_id": None, "is_transactional": False, "version": 9, **fields}
    try:
        check = group.check_offset_commit(generation_or_epoch=epoch, **request)
        if check is not None:
            check(TOPIC_ID, partition)
    except Refused as refusal:
        return refusal.error
    return ErrorCode.NONE


@pytest.mark.parametrize(
    ("epoch", "partition", "error"),
    [
        (7, 0, ErrorCode.NONE),
        (7, 9, ErrorCode.NONE),
        (8, 0, ErrorCode.STALE_MEMBER_EPOCH),
        (6, 0, ErrorCode.NONE),
        (4, 0, ErrorCode.NONE),
        (3, 0, ErrorCode.STALE_MEMBER_EPOCH),
        (6, 9, ErrorCode.STALE_MEMBER_EPOCH),
    ],
)
def test_a_member_with_an_old_epoch_commits_only_partitions_that_it_has_owned_since(
    epoch: int, partition: int, error: ErrorCode
) -> None:
    """KIP-1251."""
    group = group_with(member_with(epoch=7, assigned={0: 4}))

    assert commit(group, epoch, partition) is error


def test_only_an_empty_group_accepts_commits_of_non_members() -> None:
    assert commit(group_with(), -1, member_id="") is ErrorCode.NONE
    group = group_with(member_with(epoch=7))
    assert commit(group, -1, member_id="") is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(group, -1, member_id="", is_transactional=True) is ErrorCode.NONE


def test_members_must_commit_with_a_version_that_has_the_epoch_error() -> None:
    group = group_with(member_with(epoch=7))
    assert commit(group, 7, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert commit(group, 7, version=3, is_transactional=True) is ErrorCode.NONE


def test_offsets_are_fetched_with_the_current_epoch_or_without_a_member() -> None:
    group = group_with(member_with(epoch=7))
    group.check_offset_fetch(member_id=None, member_epoch=-1)
    group.check_offset_fetch(member_id="one", member_epoch=7)
    for member_id, epoch, error in (
        ("one", 6, ErrorCode.STALE_MEMBER_EPOCH),
        ("two", 7, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(Refused) as caught:
            group.check_offset_fetch(member_id=member_id, member_epoch=epoch)
        assert caught.value.error is error


# -- administration


def test_a_group_with_members_is_not_deleted_and_a_full_one_accepts_no_more() -> None:
    group = group_with(member_with())
    with pytest.raises(Refused) as caught:
        group.check_delete()
    assert caught.value.error is ErrorCode.NON_EMPTY_GROUP
    group.check_size(2)
    with pytest.raises(Refused) as caught:
        group.check_size(1)
    assert caught.value.error is ErrorCode.GROUP_MAX_SIZE_REACHED

    group.remove_member("one")
    group.remove_member("one")

    group.check_delete()
    group.check_size(1)
