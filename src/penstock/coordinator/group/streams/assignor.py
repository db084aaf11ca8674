"""The sticky task assignor: it balances tasks, and moves as few as possible.

An active task first goes to its previous owner, then to a member with a standby of it, as long as the member stays
within its share. The other tasks go to the least loaded process. Standby tasks, only of stateful subtopologies, follow
in the same way, but never to a process that has the task already. Standbys without a free process are left out.

The result only depends on the arguments: members are ordered by id.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.coordinator.group.streams.configuring import ConfiguredSubtopology
from penstock.coordinator.group.streams.tasks import Task, Tasks


class Candidate(NamedTuple):
    """The input of the assignor for one member."""

    process_id: str
    target: Tasks
    """The previous target assignment."""


def assign(
    members: Mapping[str, Candidate],
    subtopologies: Mapping[str, ConfiguredSubtopology],
    *,
    standby_count: int,
) -> dict[str, Tasks]:
    """The tasks of every member, with up to `standby_count` standbys of each stateful task."""
    if not members:
        return {}
    active = [Task(name, index) for name, part in subtopologies.items() for index in range(part.task_count)]
    stateful = (
        [task for task in active if subtopologies[task.subtopology_id].is_stateful] if standby_count else []
    )
    assignment = _Assignment(members, len(active), len(stateful) * standby_count)
    assignment.assign_active(active)
    assignment.assign_standby(stateful, standby_count)
    return {
        load.member_id: Tasks(active=frozenset(load.active), standby=frozenset(load.standby))
        for load in assignment.loads.values()
    }


class _Process:
    """Members that share a state directory, and so have a task at most once."""

    __slots__ = ("member_count", "order", "tasks")

    def __init__(self, order: int) -> None:
        self.order = order
        self.member_count = 0
        self.tasks: set[Task] = set()

    @property
    def load(self) -> float:
        return len(self.tasks) / self.member_count


class _Load:
    """The tasks assigned to one member so far."""

    __slots__ = ("active", "member_id", "process", "standby")

    def __init__(self, member_id: str, process: _Process) -> None:
        self.member_id = member_id
        self.process = process
        self.active: set[Task] = set()
        self.standby: set[Task] = set()

    @property
    def count(self) -> int:
        return len(self.active) + len(self.standby)


class _Share:
    """How many tasks a member may have. Full members are removed, and the others share the remaining tasks."""

    __slots__ = ("_member_count", "_task_count", "per_member")

    def __init__(self, task_count: int, member_count: int) -> None:
        self._task_count = task_count
        self._member_count = member_count
        self.per_member = -(-task_count // member_count)

    def add(self, count: int) -> None:
        """A member now has `count` tasks."""
        if count == self.per_member:
            self._member_count -= 1
            self._task_count -= count
            self.per_member = -(-self._task_count // self._member_count) if self._member_count else 0


class _Assignment:
    def __init__(self, members: Mapping[str, Candidate], active_count: int, standby_count: int) -> None:
        self.loads: dict[str, _Load] = {}
        self._processes: dict[str, _Process] = {}
        self._active_share = _Share(active_count, len(members))
        self._share = _Share(active_count + standby_count, len(members))
        self._had_active: dict[Task, _Load] = {}
        self._had_standby: dict[Task, list[_Load]] = {}
        for member_id in sorted(members):
            candidate = members[member_id]
            process = self._processes.setdefault(candidate.process_id, _Process(len(self._processes)))
            process.member_count += 1
            load = self.loads[member_id] = _Load(member_id, process)
            for task in candidate.target.active:
                self._had_active[task] = load
            for task in candidate.target.standby:
                self._had_standby.setdefault(task, []).append(load)

    def assign_active(self, tasks: Iterable[Task]) -> None:
        # By partition first, so that members keep the same partitions of several subtopologies together.
        remaining = []
        for task in sorted(tasks, key=_by_partition):
            load = self._had_active.get(task)
            if load is None or load.count >= self._active_share.per_member:
                remaining.append(task)
            else:
                self._add_active(load, task)
        unassigned = []
        for task in remaining:
            load = self._least_loaded(self._had_standby.get(task, ()), task)
            if load is None or load.count >= self._active_share.per_member:
                unassigned.append(task)
            else:
                self._add_active(load, task)
        queue = _Queue(self.loads.values())
        for task in sorted(unassigned):
            load = queue.take_without(task)
            assert load is not None, "no process has an active task before it is assigned"
            self._add_active(load, task)
            queue.put_back()

    def assign_standby(self, tasks: Iterable[Task], standby_count: int) -> None:
        remaining: list[tuple[Task, int]] = []
        for task in sorted(tasks, key=_by_partition, reverse=True):
            for given in range(standby_count):
                load = self._previous_owner(task)
                if load is None:
                    remaining.append((task, standby_count - given))
                    break
                self._add_standby(load, task)
        queue = _Queue(self.loads.values())
        for task, copies in sorted(remaining, reverse=True):
            for _ in range(copies):
                load = queue.take_without(task)
                if load is not None:
                    self._add_standby(load, task)
                queue.put_back()

    def _previous_owner(self, task: Task) -> _Load | None:
        """A member that has state of the task already, and room for it."""
        had_active = self._had_active.get(task)
        if had_active is not None and task not in had_active.process.tasks and self._has_room(had_active):
            return had_active
        had_standby = self._least_loaded(self._had_standby.get(task, ()), task)
        if had_standby is not None and self._has_room(had_standby):
            return had_standby
        return None

    def _has_room(self, load: _Load) -> bool:
        return load.count < self._share.per_member

    def _least_loaded(self, loads: Iterable[_Load], task: Task) -> _Load | None:
        free = [load for load in loads if task not in load.process.tasks]
        return min(free, key=lambda load: (load.process.load, load.count), default=None)

    def _add_active(self, load: _Load, task: Task) -> None:
        load.active.add(task)
        load.process.tasks.add(task)
        self._active_share.add(load.count)
        self._share.add(load.count)

    def _add_standby(self, load: _Load, task: Task) -> None:
        load.standby.add(task)
        load.process.tasks.add(task)
        self._share.add(load.count)


class _Queue:
    """Processes by load, and the members of each by load. Call `put_back` after `take_without`."""

    def __init__(self, loads: Iterable[_Load]) -> None:
        self._members: dict[int, list[tuple[int, str, _Load]]] = {}
        processes: dict[int, _Process] = {}
        for load in loads:
            processes[load.process.order] = load.process
            self._members.setdefault(load.process.order, []).append((load.count, load.member_id, load))
        for members in self._members.values():
            heapq.heapify(members)
        self._processes = [(process.load, order, process) for order, process in processes.items()]
        heapq.heapify(self._processes)
        self._taken: list[_Process] = []

    def take_without(self, task: Task) -> _Load | None:
        """The least loaded member in the least loaded process that does not have the task."""
        while self._processes:
            _, _, process = heapq.heappop(self._processes)
            self._taken.append(process)
            if task not in process.tasks:
                return self._members[process.order][0][2]
        return None

    def put_back(self) -> None:
        for process in self._taken:
            members = self._members[process.order]
            _, member_id, load = members[0]
            heapq.heapreplace(members, (load.count, member_id, load))
            heapq.heappush(self._processes, (process.load, process.order, process))
        self._taken.clear()


def _by_partition(task: Task) -> tuple[int, str]:
    return task.partition, task.subtopology_id
