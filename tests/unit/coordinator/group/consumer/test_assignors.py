"""The assignors: every partition to exactly one subscriber, balanced and sticky."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.consumer_groups import topic_id
from penstock.coordinator.group.consumer.assignment import Assignment
from penstock.coordinator.group.consumer.assignors import (
    AssignedMember,
    Assignor,
    GroupToAssign,
    assignors_named,
)
from penstock.coordinator.group.consumer.assignors.range import assign_ranges
from penstock.coordinator.group.consumer.assignors.uniform import assign_uniformly
from penstock.protocol.types import Uuid

IDS = [topic_id(name) for name in "abcd"]
BOTH = pytest.mark.parametrize("assign", [assign_uniformly, assign_ranges])


@st.composite
def groups(draw: st.DrawFn, *, is_homogeneous: bool | None = None) -> GroupToAssign:
    counts = {id_: draw(st.integers(1, 12)) for id_ in IDS[: draw(st.integers(1, 4))]}
    size = draw(st.integers(1, 8))
    same = draw(st.booleans()) if is_homogeneous is None else is_homogeneous
    subscriptions = [
        frozenset(counts) if same else draw(st.frozensets(st.sampled_from(sorted(counts)), max_size=4))
        for _ in range(size)
    ]
    # Previous targets: of this group or another, but never overlapping.
    left = [(id_, index) for id_ in IDS for index in range(counts.get(id_, 3))]
    random.Random(draw(st.integers(0, 1000))).shuffle(left)
    had: list[dict[Uuid, set[int]]] = [{} for _ in range(size)]
    for id_, index in left[: draw(st.integers(0, len(left)))]:
        had[draw(st.integers(0, size - 1))].setdefault(id_, set()).add(index)
    members = {
        f"m{number}": AssignedMember(None, subscriptions[number], _frozen(had[number]))
        for number in range(size)
    }
    known = {id_: count for id_, count in counts.items() if any(id_ in one for one in subscriptions)}
    return GroupToAssign(members, known, same)


def _frozen(assignment: dict[Uuid, set[int]]) -> Assignment:
    return {id_: frozenset(partitions) for id_, partitions in assignment.items()}


def partitions(assignment: Assignment) -> set[tuple[Uuid, int]]:
    return {(id_, index) for id_, indexes in assignment.items() for index in indexes}


@BOTH
@given(group=groups())
def test_every_partition_goes_to_exactly_one_subscriber(assign: Assignor, group: GroupToAssign) -> None:
    assigned = assign(group)

    counts = Counter(one for target in assigned.values() for one in partitions(target))
    assert counts == Counter((id_, index) for id_, n in group.partition_counts.items() for index in range(n))
    assert assigned.keys() == group.members.keys()
    for member_id, target in assigned.items():
        assert target.keys() <= group.members[member_id].topics
        assert all(target.values())


@given(group=groups(is_homogeneous=True))
def test_members_with_the_same_subscription_get_equal_shares(group: GroupToAssign) -> None:
    sizes = [len(partitions(target)) for target in assign_uniformly(group).values()]

    assert max(sizes) - min(sizes) <= 1


@given(group=groups(is_homogeneous=True))
def test_members_with_the_same_subscription_lose_only_partitions_above_their_share(
    group: GroupToAssign,
) -> None:
    assigned = assign_uniformly(group)

    share, extra = divmod(sum(group.partition_counts.values()), len(group.members))
    had = [
        len([one for one in partitions(member.target) if one[0] in group.partition_counts])
        for member in group.members.values()
    ]
    larger = sorted((max(0, count - share) for count in had), reverse=True)
    unavoidable = sum(larger) - sum(1 for count in larger[:extra] if count)
    lost = sum(
        1
        for member_id, member in group.members.items()
        for one in partitions(member.target) - partitions(assigned[member_id])
        if one[0] in group.partition_counts
    )
    assert lost == unavoidable


@given(group=groups(is_homogeneous=False))
def test_no_partition_could_move_to_a_subscriber_with_two_partitions_less(group: GroupToAssign) -> None:
    assigned = assign_uniformly(group._replace(is_homogeneous=False))

    sizes = {member_id: len(partitions(target)) for member_id, target in assigned.items()}
    for member_id, target in assigned.items():
        for id_ in target:
            for other, member in group.members.items():
                assert id_ not in member.topics or sizes[member_id] - sizes[other] <= 1


@given(group=groups())
def test_a_balanced_assignment_does_not_change(group: GroupToAssign) -> None:
    first = assign_uniformly(group)
    again = assign_uniformly(
        group._replace(members={m: member._replace(target=first[m]) for m, member in group.members.items()})
    )

    assert again == first
    assert all(again[member_id] is first[member_id] for member_id in first)  # the same objects


def test_ranges_are_consecutive_and_equal_in_topics_with_the_same_partition_count() -> None:
    a, b = IDS[:2]
    members = {name: AssignedMember(None, {a, b}, {}) for name in ("one", "two", "three")}

    assigned = assign_ranges(GroupToAssign(members, {a: 7, b: 7}, True))

    assert assigned["one"] == {a: {0, 1, 2}, b: {0, 1, 2}}
    assert assigned["three"] == {a: {3, 4}, b: {3, 4}}  # in the order of ids: one, three, two
    assert assigned["two"] == {a: {5, 6}, b: {5, 6}}


def test_ranges_of_static_members_come_first_in_the_order_of_instance_ids() -> None:
    a = IDS[0]
    members = {
        "a dynamic one": AssignedMember(None, {a}, {}),
        "x": AssignedMember("instance-2", {a}, {}),
        "y": AssignedMember("instance-1", {a}, {}),
    }

    assigned = assign_ranges(GroupToAssign(members, {a: 2}, True))

    assert assigned == {"y": {a: {0}}, "x": {a: {1}}, "a dynamic one": {}}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("uniform", "range"), ["uniform", "range"]),
        (("range",), ["range"]),
        (("org.apache.kafka.coordinator.group.assignor.RangeAssignor", "uniform"), ["range", "uniform"]),
    ],
)
def test_assignors_have_kafkas_names(names: tuple[str, ...], expected: list[str]) -> None:
    assert list(assignors_named(names)) == expected
