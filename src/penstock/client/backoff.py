"""How long to wait before trying again: longer with every failure, never the same for two clients.

The rule is that of KIP-580: the first wait doubles with each further failure up to a limit, and every wait is
stretched or shortened by up to a fifth at random, so that clients which lost a broker together do not come back
together. No clock and no task: whoever waits brings both.
"""

from __future__ import annotations

import random
from collections.abc import Callable

MULTIPLIER = 2
JITTER = 0.2


class Backoff:
    """Waits between `first_ms` and `max_ms`, for a count of failures in a row."""

    __slots__ = ("_first_ms", "_max_ms", "_random")

    def __init__(self, first_ms: float, max_ms: float, *, draw: Callable[[], float] | None = None) -> None:
        self._first_ms = min(first_ms, max_ms)
        self._max_ms = max_ms
        self._random = draw or random.random
        """Draws from [0, 1)."""

    def wait_ms(self, failures: int) -> float:
        """How long to wait after so many failures in a row; nothing after none."""
        if failures <= 0 or self._first_ms <= 0:
            return 0.0
        # The power is bounded first: after days of failures it would be a number of thousands of digits.
        doubled = self._first_ms * float(MULTIPLIER ** min(failures - 1, 62))
        stretched = min(doubled, self._max_ms) * (1 + JITTER * (2 * self._random() - 1))
        return min(stretched, self._max_ms)
