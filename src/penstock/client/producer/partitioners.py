"""Chooses the partition of a record: by key, sticky for a batch, or by the application's partitioner. No I/O.

The default is that of Kafka's producer: records with a key are hashed as by Kafka's JVM clients; records without one
stay with a partition for a batch, then move to another, chosen at random with preference for short queues (KIP-480,
KIP-794). This is compiled into the intake, which asks `Sticky` once per batch. Other partitioners are called for every
record.
"""

from __future__ import annotations

import inspect
import itertools
import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from penstock.client.errors import BadArgument, BadConfiguration
from penstock.client.importing import find

NAMES = "default, sticky, round-robin"


@runtime_checkable
class Partitioner(Protocol):
    """A partitioner of your own. A function of `(key, partitions, available)` works too, as in kafka-python."""

    def partition(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partitions: Sequence[int],
        available: Sequence[int],
    ) -> int:
        """Returns one of `partitions`; `available` are those that have a leader now."""
        ...


class Sticky:
    """Chooses the next partition for records without a key."""

    def __init__(self, *, is_adaptive: bool = True, rng: random.Random | None = None) -> None:
        self._is_adaptive = is_adaptive
        self._random = rng or random.Random()

    def next_partition(self, available: Sequence[bool], queued_counts: Sequence[int]) -> int:
        """An index. If no partition is available, any of them."""
        candidates = [index for index, is_available in enumerate(available) if is_available]
        if not candidates:
            return self._random.randrange(len(available))
        if not self._is_adaptive or len(available) == 1:
            return self._random.choice(candidates)
        # The longest queue has weight 1; an empty one has the longest queue's length + 1.
        longest = max(queued_counts[index] for index in candidates)
        weights = list(itertools.accumulate(longest + 1 - queued_counts[index] for index in candidates))
        return candidates[bisect_right(weights, self._random.randrange(weights[-1]))]


class RoundRobin:
    """Sends each record to the next partition with a leader, whatever its key."""

    def __init__(self) -> None:
        self._turns: dict[str, int] = {}

    def partition(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partitions: Sequence[int],
        available: Sequence[int],
    ) -> int:
        turn = self._turns[topic] = self._turns.get(topic, -1) + 1
        choice = available or partitions
        return choice[turn % len(choice)]


class _Function:
    def __init__(self, function: Callable[[bytes | None, Sequence[int], Sequence[int]], int]) -> None:
        self._function = function

    def partition(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partitions: Sequence[int],
        available: Sequence[int],
    ) -> int:
        return self._function(key, partitions, available)


def partitioner_of(spec: object) -> tuple[Partitioner | None, bool]:
    """The partitioner of `partitioner.class`, or None for the compiled one; and whether that ignores keys."""
    if spec is None or spec == "default":
        return None, False
    if spec == "sticky":
        return None, True
    if spec == "round-robin":
        return RoundRobin(), False
    made: Any = _imported(spec) if isinstance(spec, str) else spec
    if inspect.isclass(made):
        made = made()
    if isinstance(made, Partitioner):
        return made, False
    if callable(made):
        return _Function(made), False
    raise BadConfiguration(
        f"partitioner.class must be a name ({NAMES}), a function, or an object with `partition`, not {spec!r}"
    )


def check_choice(choice: object, count: int, topic: str) -> int:
    """The partition that a partitioner chose, checked."""
    if not isinstance(choice, int) or isinstance(choice, bool) or not 0 <= choice < count:
        raise BadArgument(f"the partitioner chose partition {choice!r} of {count}", about=topic)
    return choice


def _imported(place: str) -> Any:
    if ":" not in place and "." not in place:
        raise BadConfiguration(f"unknown partitioner {place}; known are {NAMES}")
    return find(place, what="partitioner")
