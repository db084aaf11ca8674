"""Bugs put into the group coordinator on purpose. The simulation must find them: see `harness.mutations`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from harness.mutations import Mutation, expect_detection
from penstock.coordinator.group.classic import groups as classic_groups
from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.groups import ClassicGroups
from penstock.coordinator.group.classic.member import Member
from penstock.coordinator.group.classic.rebalance import Rebalances
from penstock.coordinator.group.consumer import update
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.reconciliation import ReconciliationContext
from penstock.coordinator.group.modern.timeouts import MemberTimeouts
from penstock.coordinator.group.offsets.table import OffsetTable
from penstock.node.coordinator_log import PartitionCoordinatorLog
from penstock.protocol.errors import ErrorCode

SEEDS_AT_MOST = 40


def answers_before_its_log_is_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionCoordinatorLog, "is_committed", lambda log, partition, end_offset: True)


def never_removes_silent_classic_members(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Rebalances,
        "_expire_session",
        lambda rebalances, group, member: classic_groups.CoordinatorResult(None),
    )


def never_removes_silent_consumer_members(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemberTimeouts, "set_session", lambda timeouts, group_id, member_id, timeout_ms: None)


def removes_classic_members_too_early(patch: pytest.MonkeyPatch) -> None:
    start_session = Rebalances.start_session

    def start_short_session(
        rebalances: Rebalances, group: ClassicGroup, member: Member, timeout_ms: int | None = None
    ) -> None:
        member.session_timeout_ms //= 4
        start_session(rebalances, group, member, timeout_ms)

    patch.setattr(Rebalances, "start_session", start_short_session)


def removes_consumer_members_too_early(patch: pytest.MonkeyPatch) -> None:
    set_session = MemberTimeouts.set_session
    patch.setattr(
        MemberTimeouts,
        "set_session",
        lambda timeouts, group_id, member_id, timeout_ms: set_session(
            timeouts, group_id, member_id, timeout_ms // 8
        ),
    )


def does_not_wait_for_members_to_rejoin(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClassicGroup, "has_all_joined", property(lambda group: True))


def returns_the_assignment_of_another_member(patch: pytest.MonkeyPatch) -> None:
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


def accepts_commits_of_any_client(patch: pytest.MonkeyPatch) -> None:
    for kind in (ClassicGroup, ConsumerGroup):
        patch.setattr(kind, "check_offset_commit", lambda group, **_: None)


def assigns_partitions_before_they_are_released(patch: pytest.MonkeyPatch) -> None:
    def context(topics: Any, owner_of: Any, reported: Any) -> ReconciliationContext:
        return ReconciliationContext(topics, lambda topic_id, partition: None, reported)

    patch.setattr(update, "ReconciliationContext", context)


def assumes_that_partitions_were_released(patch: pytest.MonkeyPatch) -> None:
    def context(topics: Any, owner_of: Any, reported: Any) -> ReconciliationContext:
        return ReconciliationContext(topics, owner_of, [])

    patch.setattr(update, "ReconciliationContext", context)


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


def describes_members_without_assignment(patch: pytest.MonkeyPatch) -> None:
    describe = ClassicGroups.describe

    def describe_without(groups: ClassicGroups, group: ClassicGroup) -> Any:
        described = describe(groups, group)
        for member in described.members:
            member.member_assignment = b""
        return described

    patch.setattr(ClassicGroups, "describe", describe_without)


def accepts_removed_members(patch: pytest.MonkeyPatch) -> None:
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
        (answers_before_its_log_is_synced, 15),
        (never_removes_silent_classic_members, 0),
        (never_removes_silent_consumer_members, 2),
        (removes_classic_members_too_early, 0),
        (removes_consumer_members_too_early, 2),
        (does_not_wait_for_members_to_rejoin, 0),
        (returns_the_assignment_of_another_member, 0),
        (forgets_generations_when_it_loads, 0),
        (forgets_members_when_it_loads, 0),
        (accepts_commits_of_any_client, 0),
        (accepts_removed_members, 0),
        (assigns_partitions_before_they_are_released, 2),
        (assumes_that_partitions_were_released, 2),
        (keeps_the_first_offset, 0),
        (describes_members_without_assignment, 0),
    ],
)
def test_the_simulation_finds_this_bug_of_the_group_coordinator(
    mutation: Mutation, first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`first_seed` found it once, which is fast; other seeds find it too."""
    expect_detection(mutation, monkeypatch, range(first_seed, first_seed + SEEDS_AT_MOST), has_groups=True)
