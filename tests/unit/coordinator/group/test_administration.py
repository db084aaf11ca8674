"""ListGroups, DescribeGroups and DeleteGroups, over groups of all types."""

from __future__ import annotations

import pytest

from harness.offsets import GROUP, OffsetHarness, ScriptedGroup, commit, stored
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_groups import DescribedGroup
from penstock.protocol.messages.list_groups import ListedGroup


@pytest.fixture
def harness() -> OffsetHarness:
    """A simple group "offsets", and a consumer group "readers" with members."""
    harness = OffsetHarness()
    harness.classic.loaded()
    commit(harness, {"orders": {0: 7}}, group="offsets")
    harness.context.groups[GROUP] = ScriptedGroup()
    return harness


def listed(harness: OffsetHarness, *, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[str]:
    return [group.group_id for group in harness.administration.list_groups(states=states, types=types)]


def test_groups_are_listed_with_state_and_type(harness: OffsetHarness) -> None:
    assert harness.administration.list_groups() == [
        ListedGroup(group_id="offsets", protocol_type="", group_state="Empty", group_type="classic"),
        ListedGroup(group_id=GROUP, protocol_type="consumer", group_state="Stable", group_type="consumer"),
    ]


def test_groups_are_filtered_by_state_in_any_case(harness: OffsetHarness) -> None:
    assert listed(harness, states=("empty",)) == ["offsets"]
    assert listed(harness, states=(" STABLE ",)) == [GROUP]
    assert listed(harness, states=("Empty", "Stable")) == ["offsets", GROUP]
    assert listed(harness, states=("Dancing",)) == []


def test_groups_are_filtered_by_type_in_any_case(harness: OffsetHarness) -> None:
    assert listed(harness, types=("Classic",)) == ["offsets"]
    assert listed(harness, types=("CONSUMER",)) == [GROUP]
    assert listed(harness, types=("streams",)) == []
    assert listed(harness, types=("dance",)) == []


def test_a_group_must_pass_both_filters(harness: OffsetHarness) -> None:
    assert listed(harness, states=("Empty",), types=("consumer",)) == []
    assert listed(harness, states=("Stable",), types=("consumer", "classic")) == [GROUP]


def test_a_group_that_is_not_committed_is_not_listed(harness: OffsetHarness) -> None:
    harness.is_committing = False
    commit(harness, {"orders": {0: 7}}, group="new")

    assert "new" not in listed(harness)
    harness.commit()
    assert "new" in listed(harness)


def test_a_simple_group_is_described_as_empty(harness: OffsetHarness) -> None:
    assert harness.administration.describe("offsets", version=6) == DescribedGroup(
        group_id="offsets", group_state="Empty", protocol_type="", protocol_data="", members=[]
    )


@pytest.mark.parametrize(
    ("group_id", "message"),
    [
        ("unknown", "Group unknown not found."),
        (GROUP, f"Group {GROUP} is not a classic group; use the API for its type."),
    ],
)
def test_groups_of_other_types_are_not_found_or_dead_for_older_clients(
    harness: OffsetHarness, group_id: str, message: str
) -> None:
    new = harness.administration.describe(group_id, version=6)
    old = harness.administration.describe(group_id, version=5)

    assert (new.error_code, new.error_message, new.group_state) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        message,
        "Dead",
    )
    assert (old.error_code, old.error_message, old.group_state) == (ErrorCode.NONE, None, "Dead")


def test_a_group_is_deleted_with_its_offsets(harness: OffsetHarness) -> None:
    (result,) = harness.answer(harness.administration.delete(["offsets"]))

    assert result.error_code is ErrorCode.NONE
    assert "offsets" not in harness.context.groups
    assert stored(harness, group="offsets", newest=True) == {}
    assert "offsets" not in harness.reloaded().context.groups


def test_each_group_is_deleted_or_refused_on_its_own(harness: OffsetHarness) -> None:
    harness.context.groups[GROUP] = ScriptedGroup(refuses=ErrorCode.NON_EMPTY_GROUP)

    results = harness.answer(harness.administration.delete(["unknown", GROUP, "offsets"]))

    assert [(result.group_id, result.error_code) for result in results] == [
        ("unknown", ErrorCode.GROUP_ID_NOT_FOUND),
        (GROUP, ErrorCode.NON_EMPTY_GROUP),
        ("offsets", ErrorCode.NONE),
    ]
    assert list(harness.context.groups) == [GROUP]
