"""A line of the benchmark: name, unit, direction, and target ratio."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.peers import ApacheKafka, Peer, Penstock


@dataclass(frozen=True)
class Line:
    name: str
    unit: str
    is_more_better: bool
    target: float | None = None
    """The target ratio of the project, if there is one."""

    def is_met(self, ratio: float) -> bool | None:
        if self.target is None:
            return None
        return ratio >= self.target if self.is_more_better else ratio <= self.target


@dataclass(frozen=True)
class Group:
    """The lines of one measurement."""

    name: str
    measure: Callable[[Peer], dict[str, float]]
    lines: list[Line]
    rounds: int = 3
    is_long: bool = False
    """Takes minutes; only with --full."""
    kinds: Sequence[type[Peer]] = (ApacheKafka, Penstock)
    """What is measured, in this order."""
    between_clients: bool = False
    """Compares clients on one Penstock broker, without another broker. A line with a target reports the ratio itself,
    or another figure."""
