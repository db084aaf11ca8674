"""Subscriptions by regular expression: which topics they stand for, looked up a few at a time (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.coordinator.regex import Matches, compile_regex
from penstock.metadata.errors import Refused

MATCHES_AT_ONCE = 2_000
"""Names tried against patterns before others get their turn on the event loop; 3 ms (1.5 us each, measured)."""


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a pattern stands for."""

    topics: frozenset[str]
    version: int
    """The offset of the metadata in which they were looked up."""
    timestamp_ms: int
    """When that was, wall clock."""


def check_regex(pattern: str) -> None:
    """`Refused` where it is not a regular expression."""
    compile_regex(pattern)


class RegexScan:
    """The topics that patterns stand for, looked up a few at a time."""

    def __init__(
        self, patterns: Iterable[str], names: Sequence[str], *, version: int, timestamp_ms: int
    ) -> None:
        self._names = names
        self._version = version
        self._timestamp_ms = timestamp_ms
        self._position = 0
        self._found: dict[str, list[str]] = {pattern: [] for pattern in patterns}
        self._compiled = [(_compile_or_none(pattern), pattern) for pattern in self._found]

    def step(self) -> bool:
        """Go on a little; True when all names have been tried."""
        end = self._position + max(1, MATCHES_AT_ONCE // max(1, len(self._compiled)))
        for matches, pattern in self._compiled:
            if matches is not None:
                self._found[pattern] += [name for name in self._names[self._position : end] if matches(name)]
        self._position = end
        return end >= len(self._names)

    def result(self) -> dict[str, ResolvedRegex]:
        return {
            pattern: ResolvedRegex(frozenset(names), self._version, self._timestamp_ms)
            for pattern, names in self._found.items()
        }


def _compile_or_none(pattern: str) -> Matches | None:
    """A log may hold what other software took for a pattern: then it stands for nothing."""
    try:
        return compile_regex(pattern)
    except Refused:
        return None
