"""Tasks, as groups hold them: what a member shall have, and what it has. Values that never change.

A task is one partition of a subtopology. Whoever has it active processes its records; whoever has it standby or for
warm-up only keeps a copy of its state. One process may have several members (threads), and holds a task once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, Protocol


class Task(NamedTuple):
    subtopology_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology_id}_{self.partition}"


class TaskIds(Protocol):
    """As every message and record spells tasks of one subtopology."""

    subtopology_id: str
    partitions: list[int]


NO_TASKS: frozenset[Task] = frozenset()


@dataclass(frozen=True, slots=True)
class Tasks:
    """What a member shall have, or says that it has."""

    active: frozenset[Task] = NO_TASKS
    standby: frozenset[Task] = NO_TASKS
    warmup: frozenset[Task] = NO_TASKS

    @classmethod
    def read(cls, active: Iterable[TaskIds], standby: Iterable[TaskIds], warmup: Iterable[TaskIds]) -> Tasks:
        return cls(read_tasks(active), read_tasks(standby), read_tasks(warmup))

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)


@dataclass(frozen=True, slots=True)
class HeldTasks:
    """What a member has."""

    active: Mapping[Task, int]
    """With the epoch in which each was given to the member: commits from before are a zombie's."""
    standby: frozenset[Task] = NO_TASKS
    warmup: frozenset[Task] = NO_TASKS

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    def with_more(self, other: HeldTasks) -> HeldTasks:
        return HeldTasks(
            {**self.active, **other.active}, self.standby | other.standby, self.warmup | other.warmup
        )

    def holds_all(self, tasks: Tasks) -> bool:
        return (
            tasks.active <= self.active.keys()
            and tasks.standby <= self.standby
            and tasks.warmup <= self.warmup
        )

    def holds_just(self, tasks: Tasks) -> bool:
        return tasks == Tasks(frozenset(self.active), self.standby, self.warmup)

    def holds_any(self, tasks: Tasks) -> bool:
        return not (
            tasks.active.isdisjoint(self.active)
            and tasks.standby.isdisjoint(self.standby)
            and tasks.warmup.isdisjoint(self.warmup)
        )

    def copies(self) -> Iterator[Task]:
        """Those that it keeps the state of, without being the one who processes them."""
        yield from self.standby
        yield from self.warmup


NO_TARGET = Tasks()
NOTHING = HeldTasks({})


def read_tasks(groups: Iterable[TaskIds]) -> frozenset[Task]:
    return frozenset(
        Task(group.subtopology_id, partition) for group in groups for partition in group.partitions
    )


def in_order(tasks: Iterable[Task]) -> Iterator[tuple[str, list[int]]]:
    """As it is written down: by subtopology and partition, so that one assignment has one spelling."""
    for subtopology_id, group in groupby(sorted(tasks), key=lambda task: task.subtopology_id):
        yield subtopology_id, [task.partition for task in group]
