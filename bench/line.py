"""What a line of the benchmark is: a name, a unit, which way is better, and the ratio that was promised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.peers import Peer


@dataclass(frozen=True)
class Line:
    name: str
    unit: str
    is_more_better: bool
    promise: float | None = None
    """The ratio that the project has set itself; None where there is only the wish to be better."""

    def is_kept(self, ratio: float) -> bool | None:
        if self.promise is None:
            return None
        return ratio >= self.promise if self.is_more_better else ratio <= self.promise


@dataclass(frozen=True)
class Group:
    """Lines that one measurement gives together."""

    name: str
    measure: Callable[[Peer], dict[str, float]]
    lines: list[Line]
    rounds: int = 3
    is_long: bool = False
    """Takes minutes; only with --full."""
    between_clients: bool = False
    """Compares clients on one Penstock, so that there is no other broker to compare with; a line that has a promise
    tells the ratio itself, or what else was promised."""
