"""Suppression: how long changes of a table are held back, and how many of them."""

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
    """One result for each window, when nothing can change it any more. With more than `max_records` windows waiting, or
    more than `max_bytes` of them, the program fails, for giving one early would break the promise."""
    return Suppression(True, 0, _bound(max_records, "max_records"), _bound(max_bytes, "max_bytes"), "stop")


def until_time_limit(
    limit: Duration, *, max_records: int | None = None, max_bytes: int | None = None, full: Full = "emit"
) -> Suppression:
    """At most one change of a key in so many seconds of stream time. When more than `max_records` or `max_bytes` wait
    the oldest is given early, or with full="stop" the program fails."""
    if full not in ("emit", "stop"):
        raise TopologyError(
            f"what is too much is given early (`emit`) or ends the program (`stop`), not {full!r}"
        )
    limit_ms = milliseconds(limit, "the time limit")
    return Suppression(
        False, limit_ms, _bound(max_records, "max_records"), _bound(max_bytes, "max_bytes"), full
    )


def _bound(most: int | None, what: str) -> int | None:
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 0):
        raise TopologyError(f"{what} is how many may wait, not {most!r}")
    return most


def grace_ms(node: Node, what: str) -> int:
    """How long after its end a window of this table may change: what its aggregate says."""
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
    # Until the gap is over a session may still grow.
    return own_ms + node.windows.gap_ms if isinstance(node.windows, SessionWindows) else own_ms
