"""The sticky task assignor: balanced, sticky, and never a task twice in one process."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.group.streams.assignor import Candidate, assign
from penstock.coordinator.group.streams.configuring import ConfiguredSubtopology
from penstock.coordinator.group.streams.tasks import NO_TARGET, Task, Tasks
from penstock.coordinator.group.streams.topology import InternalTopic

STATE = InternalTopic("state", 1, 0, ())


def part(task_count: int, *, is_stateful: bool = False) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        task_count,
        source_topics=("in",),
        repartition_sources=(),
        repartition_sinks=(),
        changelogs=(STATE,) if is_stateful else (),
    )


def fresh(*process_ids: str) -> dict[str, Candidate]:
    """One member for each of these process ids."""
    return {f"member-{n}": Candidate(process_id, NO_TARGET) for n, process_id in enumerate(process_ids)}


def again(members: dict[str, Candidate], targets: dict[str, Tasks]) -> dict[str, Candidate]:
    return {
        member_id: Candidate(member.process_id, targets.get(member_id, NO_TARGET))
        for member_id, member in members.items()
    }


def test_tasks_are_shared_evenly_and_in_ranges() -> None:
    targets = assign(fresh("a", "b"), {"0": part(3), "1": part(3)}, standby_count=0)

    assert sorted(len(each.active) for each in targets.values()) == [3, 3]


def test_processes_get_tasks_in_proportion_to_their_members() -> None:
    targets = assign(fresh("a", "a", "b"), {"0": part(9)}, standby_count=0)

    assert [len(targets[f"member-{n}"].active) for n in range(3)] == [3, 3, 3]


def test_an_unchanged_group_keeps_its_assignment() -> None:
    members = fresh("a", "a", "b", "c")
    parts = {"0": part(7, is_stateful=True), "1": part(5)}
    targets = assign(members, parts, standby_count=1)

    assert assign(again(members, targets), parts, standby_count=1) == targets


def test_a_new_member_takes_only_its_share() -> None:
    two, three = fresh("a", "b"), fresh("a", "b", "c")
    parts = {"0": part(6)}
    before = assign(two, parts, standby_count=0)

    after = assign(again(three, before), parts, standby_count=0)

    assert len(after["member-2"].active) == 2
    for member_id in two:
        assert after[member_id].active < before[member_id].active


def test_tasks_of_a_member_that_left_go_to_the_member_with_a_standby() -> None:
    members = fresh("a", "b", "c")
    parts = {"0": part(3, is_stateful=True)}
    before = assign(members, parts, standby_count=1)
    gone = before.pop("member-0")
    keepers = {member_id for member_id, target in before.items() if target.standby & gone.active}
    assert keepers

    after = assign(again({name: members[name] for name in before}, before), parts, standby_count=1)

    for member_id in before:
        assert before[member_id].active <= after[member_id].active
    assert any(after[member_id].active >= gone.active for member_id in keepers)


def test_only_stateful_tasks_have_standbys() -> None:
    targets = assign(fresh("a", "b"), {"0": part(2), "1": part(2, is_stateful=True)}, standby_count=1)

    standbys = [task for target in targets.values() for task in target.standby]
    assert sorted(standbys) == [Task("1", 0), Task("1", 1)]


def test_standbys_without_a_free_process_are_left_out() -> None:
    targets = assign(fresh("a", "a"), {"0": part(2, is_stateful=True)}, standby_count=2)

    assert all(not target.standby for target in targets.values())


def test_no_members_get_no_tasks() -> None:
    assert assign({}, {"0": part(1)}, standby_count=0) == {}
    assert assign(fresh("a"), {}, standby_count=1) == {"member-0": NO_TARGET}


@st.composite
def situations(draw: st.DrawFn) -> tuple[dict[str, Candidate], dict[str, ConfiguredSubtopology], int]:
    parts = {
        str(n): part(draw(st.integers(1, 6)), is_stateful=draw(st.booleans()))
        for n in range(draw(st.integers(1, 4)))
    }
    member_ids = [f"m{n}" for n in range(draw(st.integers(1, 7)))]
    everything = [Task(name, index) for name, each in parts.items() for index in range(each.task_count + 1)]
    active = {task: draw(st.sampled_from(["gone", *member_ids])) for task in everything}
    standby = {task: draw(st.sets(st.sampled_from(member_ids), max_size=2)) for task in everything}
    members = {
        member_id: Candidate(
            draw(st.sampled_from(["p", "q", "r", "s"])),
            Tasks(
                frozenset(task for task in everything if active[task] == member_id),
                frozenset(
                    task for task in everything if member_id in standby[task] and active[task] != member_id
                ),
            ),
        )
        for member_id in member_ids
    }
    return members, parts, draw(st.integers(0, 3))


@given(situations())
def test_after_any_assignment_every_task_is_active_once_and_owned_once_in_a_process(
    situation: tuple[dict[str, Candidate], dict[str, ConfiguredSubtopology], int],
) -> None:
    members, parts, standby_count = situation

    targets = assign(members, parts, standby_count=standby_count)

    assert set(targets) == set(members)
    every = [Task(name, index) for name, each in parts.items() for index in range(each.task_count)]
    active = [task for target in targets.values() for task in target.active]
    assert sorted(active) == sorted(every)
    held = Counter(
        (members[member_id].process_id, task)
        for member_id, target in targets.items()
        for task in [*target.active, *target.standby]
    )
    assert set(held.values()) <= {1}
    process_count = len({member.process_id for member in members.values()})
    copies = Counter(task for target in targets.values() for task in target.standby)
    for task in every:
        wished = min(standby_count, process_count - 1) if parts[task.subtopology_id].is_stateful else 0
        assert copies[task] == wished
    assert all(not target.warmup for target in targets.values())


@given(situations())
def test_active_tasks_that_were_assigned_from_scratch_stay_where_they_are(
    situation: tuple[dict[str, Candidate], dict[str, ConfiguredSubtopology], int],
) -> None:
    members, parts, standby_count = situation
    once = assign(again(members, {}), parts, standby_count=standby_count)

    twice = assign(again(members, once), parts, standby_count=standby_count)

    # Standbys may move: in the first assignment, some processes had the task already.
    assert {name: each.active for name, each in twice.items()} == {
        name: each.active for name, each in once.items()
    }
