"""Faults that are put into the coordinator of groups on purpose, and have to be found: see `harness.mutations`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from harness.mutations import Mutation, find_out
from penstock.coordinator.group.classic import groups as classic_groups
from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.groups import ClassicGroups
from penstock.coordinator.group.classic.member import Member
from penstock.coordinator.group.classic.rebalance import Rebalances
from penstock.coordinator.group.consumer import change
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.reconciliation import Surrounding
from penstock.coordinator.group.consumer.timeouts import Timeouts
from penstock.coordinator.group.offset_table import OffsetTable
from penstock.node.coordinator_log import LedPartitions
from penstock.protocol.errors import ErrorCode

SEEDS_AT_MOST = 40


def answers_before_its_log_is_safe(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LedPartitions, "is_committed", lambda log, partition, end_offset: True)


def forgets_silent_members_of_classic_groups(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Rebalances, "_end_session", lambda rebalances, group, member: classic_groups.Outcome(None))


def forgets_silent_members_of_newer_groups(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Timeouts, "set_session", lambda timeouts, group_id, member_id, timeout_ms: None)


def is_impatient_with_members_of_classic_groups(patch: pytest.MonkeyPatch) -> None:
    start_session = Rebalances.start_session

    def start_short_session(
        rebalances: Rebalances, group: ClassicGroup, member: Member, timeout_ms: int | None = None
    ) -> None:
        member.session_timeout_ms //= 4
        start_session(rebalances, group, member, timeout_ms)

    patch.setattr(Rebalances, "start_session", start_short_session)


def is_impatient_with_members_of_newer_groups(patch: pytest.MonkeyPatch) -> None:
    set_session = Timeouts.set_session
    patch.setattr(
        Timeouts,
        "set_session",
        lambda timeouts, group_id, member_id, timeout_ms: set_session(
            timeouts, group_id, member_id, timeout_ms // 8
        ),
    )


def does_not_wait_for_those_who_have_to_join_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClassicGroup, "has_all_joined", property(lambda group: True))


def hands_out_the_assignment_of_another(patch: pytest.MonkeyPatch) -> None:
    give = Rebalances.give_assignments

    def give_first(rebalances: Rebalances, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
        give(rebalances, group, dict.fromkeys(assignments, next(iter(assignments.values()))))

    patch.setattr(Rebalances, "give_assignments", give_first)


def forgets_generations_when_it_loads(patch: pytest.MonkeyPatch) -> None:
    group_of = classic_groups.group_of

    def group_of_first_generation(*arguments: Any) -> ClassicGroup:
        group = group_of(*arguments)
        group.generation = 0
        return group

    patch.setattr(classic_groups, "group_of", group_of_first_generation)


def forgets_members_when_it_loads(patch: pytest.MonkeyPatch) -> None:
    loaded = ClassicGroups.loaded

    def loaded_without_members(groups: ClassicGroups) -> None:
        for group in groups._groups.values():
            if isinstance(group, ClassicGroup):
                for member in list(group.members.values()):
                    group.remove(member)
        loaded(groups)

    patch.setattr(ClassicGroups, "loaded", loaded_without_members)


def takes_commits_of_anybody(patch: pytest.MonkeyPatch) -> None:
    for kind in (ClassicGroup, ConsumerGroup):
        patch.setattr(kind, "check_offset_commit", lambda group, **_: None)


def gives_partitions_to_two_at_once(patch: pytest.MonkeyPatch) -> None:
    def surrounding(topics: Any, owner_of: Any, reported: Any) -> Surrounding:
        return Surrounding(topics, lambda topic_id, partition: None, reported)

    patch.setattr(change, "Surrounding", surrounding)


def believes_that_partitions_were_given_up(patch: pytest.MonkeyPatch) -> None:
    def surrounding(topics: Any, owner_of: Any, reported: Any) -> Surrounding:
        return Surrounding(topics, owner_of, [])

    patch.setattr(change, "Surrounding", surrounding)


def keeps_the_first_offset(patch: pytest.MonkeyPatch) -> None:
    put_all = OffsetTable.put_all

    def put_once(table: OffsetTable, group_id: str, topic: str, stored: Mapping[int, Any]) -> None:
        new = {
            partition: value
            for partition, value in stored.items()
            if table.get(group_id, topic, partition) is None
        }
        put_all(table, group_id, topic, new)

    patch.setattr(OffsetTable, "put_all", put_once)


def describes_members_without_what_they_own(patch: pytest.MonkeyPatch) -> None:
    describe = ClassicGroups.describe

    def describe_without(groups: ClassicGroups, group: ClassicGroup) -> Any:
        described = describe(groups, group)
        for member in described.members:
            member.member_assignment = b""
        return described

    patch.setattr(ClassicGroups, "describe", describe_without)


def accepts_members_that_it_has_put_out(patch: pytest.MonkeyPatch) -> None:
    heartbeat = ClassicGroups.heartbeat

    def accept(groups: ClassicGroups, request: Any, *, version: int) -> Any:
        outcome = heartbeat(groups, request, version=version)
        if outcome.response.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            outcome.response.error_code = ErrorCode.NONE
        return outcome

    patch.setattr(ClassicGroups, "heartbeat", accept)


@pytest.mark.parametrize(
    ("mutation", "first_seed"),
    [
        (answers_before_its_log_is_safe, 15),
        (forgets_silent_members_of_classic_groups, 0),
        (forgets_silent_members_of_newer_groups, 2),
        (is_impatient_with_members_of_classic_groups, 0),
        (is_impatient_with_members_of_newer_groups, 2),
        (does_not_wait_for_those_who_have_to_join_again, 0),
        (hands_out_the_assignment_of_another, 0),
        (forgets_generations_when_it_loads, 0),
        (forgets_members_when_it_loads, 0),
        (takes_commits_of_anybody, 0),
        (accepts_members_that_it_has_put_out, 0),
        (gives_partitions_to_two_at_once, 2),
        (believes_that_partitions_were_given_up, 2),
        (keeps_the_first_offset, 0),
        (describes_members_without_what_they_own, 0),
    ],
)
def test_a_coordinator_with_this_fault_is_found_out(
    mutation: Mutation, first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`first_seed` is one that found it once, to be quick; others will do as well."""
    find_out(mutation, monkeypatch, range(first_seed, first_seed + SEEDS_AT_MOST), has_groups=True)
