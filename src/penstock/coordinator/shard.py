"""The interface between the runtime and a shard, which is the state of one partition of a coordinator's topic.

A shard decides and replays (`Shard`). The runtime gives it a `ShardContext`, and tracks its log in an `OwnedShard`.
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
    """The clock, timers and timeline of one shard."""

    partition: int
    timeline: Timeline
    timers: Timers
    now_ms: Callable[[], int]
    """Monotonic, for durations."""
    wall_ms: Callable[[], int]
    """For timestamps in records."""


class Shard(Protocol):
    def replay(self, key: Any, value: Any | None) -> None:
        """Apply one record. The only place where replicated state changes; must not fail."""
        ...

    def loaded(self) -> None:
        """All records are replayed and committed: set the timers."""
        ...

    def unloaded(self) -> None:
        """This node has lost the partition, or the shard failed: fail waiting requests with NOT_COORDINATOR."""
        ...


class TransactionalShard(Shard, Protocol):
    """A shard whose results may have a `producer`. Records of a transaction take effect when it is committed."""

    def replay_in_transaction(self, producer_id: int, key: Any, value: Any | None) -> None: ...

    def transaction_ended(self, producer_id: int, is_commit: bool) -> None:
        """Replay a transaction marker."""
        ...


S = TypeVar("S", bound=Shard)


class OwnedShard(Generic[S]):
    """A shard that this node owns, loaded or not."""

    __slots__ = (
        "active_since_ms",
        "alarm",
        "committed_end",
        "context",
        "end_offset",
        "failures",
        "is_active",
        "is_failed",
        "is_refused",
        "shard",
    )

    shard: S
    """Set before it is loaded. If it could not be created, it is missing and `is_failed` is set."""

    def __init__(self, context: ShardContext, *, failures: int = 0) -> None:
        self.context = context
        self.is_active = False
        """Loaded and served."""
        self.is_failed = False
        """Not served any more. It is reloaded, unless its log directory is offline."""
        self.is_refused = False
        """Whether the log refused the last write that no client waits for."""
        self.failures = failures
        """Failures in a row."""
        self.active_since_ms = 0
        self.end_offset = 0
        """Of the last write."""
        self.committed_end = 0
        self.alarm: asyncio.TimerHandle | None = None
        """For the next timer of an active shard, or for the reload of a failed one."""
