"""Where a record goes: by its key, or to one partition until a batch is full, or as the application says. No I/O.

Nothing said means what Kafka's producer does: records of one key go to one partition, by the same hash as all
of Kafka's clients for the JVM; records without a key stay with one partition for a batch, then go on to another, chosen
at random with preference for short queues (KIP-480, KIP-794). That way is compiled into the intake, which asks `Sticky`
for a partition once a batch. Everything else is asked for every record.
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
    """One of your own. A function of `(key, partitions, available)` serves as well, as in kafka-python."""

    def partition(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partitions: Sequence[int],
        available: Sequence[int],
    ) -> int:
        """One of `partitions`; `available` are those that have a leader at present."""
        ...


class Sticky:
    """Chooses the next partition for records without a key."""

    def __init__(self, *, is_adaptive: bool = True, rng: random.Random | None = None) -> None:
        self._is_adaptive = is_adaptive
        self._random = rng or random.Random()

    def next_partition(self, available: Sequence[bool], queued_counts: Sequence[int]) -> int:
        """An index. With no partition available any may be the first to be."""
        candidates = [index for index, is_available in enumerate(available) if is_available]
        if not candidates:
            return self._random.randrange(len(available))
        if not self._is_adaptive or len(available) == 1:
            return self._random.choice(candidates)
        # The longest queue counts once, an empty one as often as the longest is long and once more.
        longest = max(queued_counts[index] for index in candidates)
        weights = list(itertools.accumulate(longest + 1 - queued_counts[index] for index in candidates))
        return candidates[bisect_right(weights, self._random.randrange(weights[-1]))]


class RoundRobin:
    """Each record to the next partition that has a leader, key or not."""

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
    """What `partitioner.class` means: a partitioner, or None for the compiled way; and whether that ignores keys."""
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
        f"partitioner.class is a name ({NAMES}), a function, or an object with `partition`, and {spec!r} is none"
    )


def check_choice(choice: object, count: int, topic: str) -> int:
    """What a partitioner answered, where it can be."""
    if not isinstance(choice, int) or isinstance(choice, bool) or not 0 <= choice < count:
        raise BadArgument(f"the partitioner chose {choice!r} of {count} partitions", about=topic)
    return choice


def _imported(place: str) -> Any:
    if ":" not in place and "." not in place:
        raise BadConfiguration(f"there is no partitioner called {place}; there are {NAMES}")
    return find(place, what="partitioner")
