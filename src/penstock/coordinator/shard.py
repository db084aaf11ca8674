"""What a shard is to the runtime: the state of one partition of a coordinator's topic.

A shard decides and replays (`Shard`). The runtime gives it what it may use (`ShardContext`) and keeps beside it how far
its log has come (`HeldShard`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from penstock.coordinator.timeline import Timeline
from penstock.coordinator.timers import Timers


@dataclass(frozen=True, slots=True)
class ShardContext:
    """What the runtime gives to a shard."""

    partition: int
    timeline: Timeline
    timers: Timers
    now_ms: Callable[[], int]
    """Monotonic, for durations."""
    wall_ms: Callable[[], int]
    """For timestamps in records."""


class Shard(Protocol):
    def replay(self, key: Any, value: Any | None) -> None:
        """Take over one record. The only place where replicated state changes; must not fail."""
        ...

    def loaded(self) -> None:
        """Everything is replayed and committed: set the timers."""
        ...

    def unloaded(self) -> None:
        """Another node has taken over, or the shard failed: fail waiting requests with NOT_COORDINATOR."""
        ...


class TransactionalShard(Shard, Protocol):
    """One that may return outcomes with a `producer`. What is replayed in a transaction holds once it is committed."""

    def replay_in_transaction(self, producer_id: int, key: Any, value: Any | None) -> None: ...

    def transaction_ended(self, producer_id: int, is_commit: bool) -> None:
        """As `replay`: what follows from it is the state of all who come later."""
        ...


S = TypeVar("S", bound=Shard)


class HeldShard(Generic[S]):
    """One shard that this node owns, or is about to."""

    __slots__ = (
        "active_since_ms",
        "alarm",
        "committed_end",
        "context",
        "end_offset",
        "failures",
        "is_active",
        "is_failed",
        "shard",
    )

    shard: S
    """Set before it is loaded; a shard that could not even be made has none, and is failed."""

    def __init__(self, context: ShardContext, *, failures: int = 0) -> None:
        self.context = context
        self.is_active = False
        """Loaded, and served."""
        self.is_failed = False
        """Not served any more. It is loaded again later, unless its log directory is offline."""
        self.failures = failures
        """How often this partition has failed in a row."""
        self.active_since_ms = 0
        self.end_offset = 0
        """Where the last write ended."""
        self.committed_end = 0
        self.alarm: asyncio.TimerHandle | None = None
        """Comes with the next deadline of an active shard, or when a failed one is to be loaded again."""
