"""A member on its way from the tasks that it has to those that it shall have.

First it gives up, which counts as done when it says so; then it moves to the new epoch and gets what is free; and it
waits for what others still have. Never is a task active in two places, nor twice in one process: a task is given only
when nobody has it, neither as its own nor as something that it was told to give up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from penstock.coordinator.group.streams.member import MemberState, StreamsMember
from penstock.coordinator.group.streams.tasks import HeldTasks, Task, Tasks
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode


class Holders(Protocol):
    """Who has which task at present."""

    def is_active_anywhere(self, task: Task) -> bool: ...

    def is_held_in(self, process_id: str, task: Task) -> bool:
        """Active, standby or for warm-up."""
        ...


def reconcile(
    member: StreamsMember, target: Tasks, *, target_epoch: int, owned: Tasks | None, holders: Holders
) -> StreamsMember:
    """The member one step further; itself where it has to wait. `owned` is what it says that it has, if it does."""
    if member.is_reconciled_to(target_epoch):
        return member
    epoch = member.epoch
    if member.state is MemberState.UNREVOKED_TASKS:
        if owned is None or member.revoking.holds_any(owned):
            return member
        epoch += 1  # what was asked for is done, even where more will be asked
    elif member.state is MemberState.UNKNOWN:
        if owned is None or owned:
            raise Refused(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The member has an unknown state, written by newer software. Give up all tasks and rejoin.",
            )
        epoch = target_epoch
    return _step(member, target, epoch=epoch, target_epoch=target_epoch, owned=owned, holders=holders)


def _step(
    member: StreamsMember,
    target: Tasks,
    *,
    epoch: int,
    target_epoch: int,
    owned: Tasks | None,
    holders: Holders,
) -> StreamsMember:
    has = member.assigned
    kept = HeldTasks(
        {task: since for task, since in has.active.items() if task in target.active},
        has.standby & target.standby,
        has.warmup & target.warmup,
    )
    surplus = HeldTasks(
        {task: since for task, since in has.active.items() if task not in target.active},
        has.standby - target.standby,
        has.warmup - target.warmup,
    )
    if surplus and (owned is None or surplus.holds_any(owned)):
        return member.moved_to(epoch, state=MemberState.UNREVOKED_TASKS, assigned=kept, revoking=surplus)
    missing = Tasks(
        target.active - kept.active.keys(), target.standby - kept.standby, target.warmup - kept.warmup
    )
    free = HeldTasks(
        dict.fromkeys(_free_to_process(missing.active, member, holders), target_epoch),
        frozenset(_free_to_copy(missing.standby, member, holders)),
        frozenset(_free_to_copy(missing.warmup, member, holders)),
    )
    is_complete = free.holds_all(missing)
    return member.moved_to(
        target_epoch,
        state=MemberState.STABLE if is_complete else MemberState.UNRELEASED_TASKS,
        assigned=kept.with_more(free),
    )


def _free_to_process(tasks: Iterable[Task], member: StreamsMember, holders: Holders) -> list[Task]:
    return [
        task
        for task in tasks
        if not holders.is_active_anywhere(task) and not holders.is_held_in(member.process_id, task)
    ]


def _free_to_copy(tasks: Iterable[Task], member: StreamsMember, holders: Holders) -> list[Task]:
    return [task for task in tasks if not holders.is_held_in(member.process_id, task)]
