"""Tasks: the target assignment of a member, and the tasks that it owns. Immutable values.

A task is one partition of a subtopology. The member that has a task as active processes its records; a member that has
it as standby or warm-up only keeps a copy of its state. A process may have several members (threads), and has a task
at most once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, Protocol, TypeVar

Ids = TypeVar("Ids")


class Task(NamedTuple):
    subtopology_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology_id}_{self.partition}"


class TaskIds(Protocol):
    """How every message and record writes tasks of one subtopology."""

    subtopology_id: str
    partitions: list[int]


NO_TASKS: frozenset[Task] = frozenset()


@dataclass(frozen=True, slots=True)
class Tasks:
    """A target assignment, or the tasks that a member reports to own."""

    active: frozenset[Task] = NO_TASKS
    standby: frozenset[Task] = NO_TASKS
    warmup: frozenset[Task] = NO_TASKS

    @classmethod
    def read(cls, active: Iterable[TaskIds], standby: Iterable[TaskIds], warmup: Iterable[TaskIds]) -> Tasks:
        return cls(read_tasks(active), read_tasks(standby), read_tasks(warmup))

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)


@dataclass(frozen=True, slots=True)
class OwnedTasks:
    active: Mapping[Task, int]
    """With their assignment epochs: the member epochs in which they were assigned. Older commits are fenced."""
    standby: frozenset[Task] = NO_TASKS
    warmup: frozenset[Task] = NO_TASKS

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    def with_more(self, other: OwnedTasks) -> OwnedTasks:
        return OwnedTasks(
            {**self.active, **other.active}, self.standby | other.standby, self.warmup | other.warmup
        )

    def has_all(self, tasks: Tasks) -> bool:
        return (
            tasks.active <= self.active.keys()
            and tasks.standby <= self.standby
            and tasks.warmup <= self.warmup
        )

    def has_exactly(self, tasks: Tasks) -> bool:
        return tasks == Tasks(frozenset(self.active), self.standby, self.warmup)

    def has_any(self, tasks: Tasks) -> bool:
        return not (
            tasks.active.isdisjoint(self.active)
            and tasks.standby.isdisjoint(self.standby)
            and tasks.warmup.isdisjoint(self.warmup)
        )

    def copies(self) -> Iterator[Task]:
        """The standby and warm-up tasks."""
        yield from self.standby
        yield from self.warmup


NO_TARGET = Tasks()
NOTHING = OwnedTasks({})


def read_tasks(groups: Iterable[TaskIds]) -> frozenset[Task]:
    return frozenset(
        Task(group.subtopology_id, partition) for group in groups for partition in group.partitions
    )


def write_tasks(message: Callable[..., Ids], tasks: Iterable[Task]) -> list[Ids]:
    """One `message`, which has the fields of `TaskIds`, for each subtopology."""
    return [
        message(subtopology_id=subtopology_id, partitions=partitions)
        for subtopology_id, partitions in in_order(tasks)
    ]


def in_order(tasks: Iterable[Task]) -> Iterator[tuple[str, list[int]]]:
    """By subtopology and partition, so that equal assignments are written as equal bytes."""
    for subtopology_id, group in groupby(sorted(tasks), key=lambda task: task.subtopology_id):
        yield subtopology_id, [task.partition for task in group]
