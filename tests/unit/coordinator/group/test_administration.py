"""ListGroups, DescribeGroups and DeleteGroups, over groups of all types."""

from __future__ import annotations

import pytest

from harness.offsets import GROUP, ObedientGroup, OffsetStage, commit, stored
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_groups import DescribedGroup
from penstock.protocol.messages.list_groups import ListedGroup


@pytest.fixture
def stage() -> OffsetStage:
    """A simple group "offsets", and "readers" of the new type with members."""
    stage = OffsetStage()
    stage.classic.loaded()
    commit(stage, {"orders": {0: 7}}, group="offsets")
    stage.context.groups[GROUP] = ObedientGroup()
    return stage


def listed(stage: OffsetStage, *, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[str]:
    return [group.group_id for group in stage.administration.list_groups(states=states, types=types)]


def test_groups_are_listed_with_state_and_type(stage: OffsetStage) -> None:
    assert stage.administration.list_groups() == [
        ListedGroup(group_id="offsets", protocol_type="", group_state="Empty", group_type="classic"),
        ListedGroup(group_id=GROUP, protocol_type="consumer", group_state="Stable", group_type="consumer"),
    ]


def test_groups_are_filtered_by_state_in_any_case(stage: OffsetStage) -> None:
    assert listed(stage, states=("empty",)) == ["offsets"]
    assert listed(stage, states=(" STABLE ",)) == [GROUP]
    assert listed(stage, states=("Empty", "Stable")) == ["offsets", GROUP]
    assert listed(stage, states=("Dancing",)) == []


def test_groups_are_filtered_by_type_in_any_case(stage: OffsetStage) -> None:
    assert listed(stage, types=("Classic",)) == ["offsets"]
    assert listed(stage, types=("CONSUMER",)) == [GROUP]
    assert listed(stage, types=("streams",)) == []
    assert listed(stage, types=("dance",)) == []


def test_a_group_must_pass_both_filters(stage: OffsetStage) -> None:
    assert listed(stage, states=("Empty",), types=("consumer",)) == []
    assert listed(stage, states=("Stable",), types=("consumer", "classic")) == [GROUP]


def test_a_group_that_is_not_committed_is_not_listed(stage: OffsetStage) -> None:
    stage.is_committing = False
    commit(stage, {"orders": {0: 7}}, group="new")

    assert "new" not in listed(stage)
    stage.commit()
    assert "new" in listed(stage)


def test_a_simple_group_is_described_as_empty(stage: OffsetStage) -> None:
    assert stage.administration.describe("offsets", version=6) == DescribedGroup(
        group_id="offsets", group_state="Empty", protocol_type="", protocol_data="", members=[]
    )


@pytest.mark.parametrize(
    ("group_id", "message"),
    [
        ("nobody", "Group nobody not found."),
        (GROUP, f"Group {GROUP} is not a classic group; use the API for its type."),
    ],
)
def test_other_groups_are_not_found_or_dead_to_older_clients(
    stage: OffsetStage, group_id: str, message: str
) -> None:
    new = stage.administration.describe(group_id, version=6)
    old = stage.administration.describe(group_id, version=5)

    assert (new.error_code, new.error_message, new.group_state) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        message,
        "Dead",
    )
    assert (old.error_code, old.error_message, old.group_state) == (ErrorCode.NONE, None, "Dead")


def test_a_group_is_deleted_with_its_offsets(stage: OffsetStage) -> None:
    (result,) = stage.answer(stage.administration.delete(["offsets"]))

    assert result.error_code is ErrorCode.NONE
    assert "offsets" not in stage.context.groups
    assert stored(stage, group="offsets", newest=True) == {}
    assert "offsets" not in stage.reloaded().context.groups


def test_each_group_is_deleted_or_refused_on_its_own(stage: OffsetStage) -> None:
    stage.context.groups[GROUP] = ObedientGroup(refuses=ErrorCode.NON_EMPTY_GROUP)

    results = stage.answer(stage.administration.delete(["nobody", GROUP, "offsets"]))

    assert [(result.group_id, result.error_code) for result in results] == [
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
        (GROUP, ErrorCode.NON_EMPTY_GROUP),
        ("offsets", ErrorCode.NONE),
    ]
    assert list(stage.context.groups) == [GROUP]
