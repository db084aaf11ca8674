"""One step of a member from its current tasks to its target tasks.

The member first revokes, until it reports that it has. Then it moves to the target's epoch and receives the tasks that
are free; it waits for tasks that other members still own. A task is never active in two members, nor owned twice in
one process: it is assigned only if no member owns it or has it pending revocation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from penstock.coordinator.group.modern.member import MemberState
from penstock.coordinator.group.streams.member import StreamsMember
from penstock.coordinator.group.streams.tasks import NOTHING, OwnedTasks, Task, Tasks


class Owners(Protocol):
    """The current owners of tasks."""

    def is_active_anywhere(self, task: Task) -> bool: ...

    def is_owned_by_process(self, process_id: str, task: Task) -> bool: ...


def reconcile(
    member: StreamsMember, target: Tasks, *, target_epoch: int, reported: Tasks | None, owners: Owners
) -> StreamsMember:
    """The member after its next step; unchanged if it has to wait. `reported` are the tasks that it reports to own;
    None: the request does not have them. `Refused` if it has to rejoin."""
    if member.is_reconciled_to(target_epoch):
        return member
    member.check_state(owns_nothing=reported is not None and not reported)
    epoch = member.epoch
    if member.state is MemberState.UNREVOKED:
        if reported is None or member.revoking.has_any(reported):
            return member
        epoch += 1  # this revocation is complete, even if another one follows
    elif member.state is MemberState.UNKNOWN:
        epoch = target_epoch
    owned = member.assigned
    kept = OwnedTasks(
        {task: since for task, since in owned.active.items() if task in target.active},
        owned.standby & target.standby,
        owned.warmup & target.warmup,
    )
    to_revoke = OwnedTasks(
        {task: since for task, since in owned.active.items() if task not in target.active},
        owned.standby - target.standby,
        owned.warmup - target.warmup,
    )
    if to_revoke and (reported is None or to_revoke.has_any(reported)):
        return member.moved_to(epoch, state=MemberState.UNREVOKED, assigned=kept, revoking=to_revoke)
    missing = Tasks(
        target.active - kept.active.keys(), target.standby - kept.standby, target.warmup - kept.warmup
    )
    free = OwnedTasks(
        dict.fromkeys(_free_active(missing.active, member, owners), target_epoch),
        frozenset(_free_copies(missing.standby, member, owners)),
        frozenset(_free_copies(missing.warmup, member, owners)),
    )
    is_complete = free.has_all(missing)
    return member.moved_to(
        target_epoch,
        state=MemberState.STABLE if is_complete else MemberState.UNRELEASED,
        assigned=kept.with_more(free),
        revoking=NOTHING,
    )


def _free_active(tasks: Iterable[Task], member: StreamsMember, owners: Owners) -> list[Task]:
    return [task for task in _free_copies(tasks, member, owners) if not owners.is_active_anywhere(task)]


def _free_copies(tasks: Iterable[Task], member: StreamsMember, owners: Owners) -> list[Task]:
    return [task for task in tasks if not owners.is_owned_by_process(member.process_id, task)]
