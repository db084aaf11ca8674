"""Suppression: how long changes of a table are held back, and how many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.streams.nouns import Duration, TopologyError, milliseconds
from penstock.streams.topology import Aggregate, Node
from penstock.streams.windows import SessionWindows, UnlimitedWindows

Full = Literal["emit", "stop"]


@dataclass(frozen=True, slots=True)
class Suppression:
    """How long changes of a table are held back."""

    until_window_closes: bool
    limit_ms: int
    max_records: int | None
    max_bytes: int | None
    full: Full


def until_window_closes(*, max_records: int | None = None, max_bytes: int | None = None) -> Suppression:
    """Emit one final result for each window. The program fails if more than `max_records` windows or `max_bytes` are
    buffered, because an early result would not be final."""
    return Suppression(True, 0, _bound(max_records, "max_records"), _bound(max_bytes, "max_bytes"), "stop")


def until_time_limit(
    limit: Duration, *, max_records: int | None = None, max_bytes: int | None = None, full: Full = "emit"
) -> Suppression:
    """Emit at most one change of a key in this many seconds of stream time. If more than `max_records` or `max_bytes`
    are buffered, the oldest change is emitted early, or the program fails with full="stop"."""
    if full not in ("emit", "stop"):
        raise TopologyError(f"full must be `emit` or `stop`, not {full!r}")
    limit_ms = milliseconds(limit, "the time limit")
    return Suppression(
        False, limit_ms, _bound(max_records, "max_records"), _bound(max_bytes, "max_bytes"), full
    )


def _bound(most: int | None, what: str) -> int | None:
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 0):
        raise TopologyError(f"{what} must be a positive number, not {most!r}")
    return most


def grace_ms(node: Node, what: str) -> int:
    """The grace period of the windows of this table."""
    while not isinstance(node, Aggregate):
        if len(node.parents) != 1:
            raise TopologyError(f"{what}: only a table of windows has windows that close")
        node = node.parents[0]
    if node.windows is None:
        raise TopologyError(
            f"{what}: only a table of windows has windows that close, and {node.name} has none"
        )
    if isinstance(node.windows, UnlimitedWindows):
        raise TopologyError(f"{what}: the window of {node.name} has no end and never closes")
    own_ms = node.windows.grace_ms
    # A session may grow until the gap has passed.
    return own_ms + node.windows.gap_ms if isinstance(node.windows, SessionWindows) else own_ms
