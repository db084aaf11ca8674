"""Exponential backoff: the wait before a retry grows with every failure in a row.

The wait doubles with each failure up to a limit. Clients add jitter (KIP-580): every wait is longer or shorter by up to
a fifth at random, so that clients which lost a broker at the same time do not reconnect at the same time. There is no
clock and no task here; the caller waits.

The caller also supplies the random numbers. They must not come from the global generator of `random`: that one belongs
to the application, which may have seeded it, and clients run in a thread of their own.
"""

from __future__ import annotations

from collections.abc import Callable

MULTIPLIER = 2
JITTER = 0.2


class Backoff:
    """Waits between `first_ms` and `max_ms`, for a count of failures in a row."""

    __slots__ = ("_draw", "_first_ms", "_jitter", "max_ms")

    def __init__(
        self,
        first_ms: float,
        max_ms: float,
        *,
        jitter: float = JITTER,
        draw: Callable[[], float] | None = None,
    ) -> None:
        """`draw` returns a random number in [0, 1). Only a backoff without jitter needs none."""
        assert draw is not None or not jitter
        self._first_ms = min(first_ms, max_ms)
        self.max_ms = max_ms
        self._jitter = jitter
        self._draw = draw

    def wait_ms(self, failures: int) -> float:
        """The wait after this many failures in a row: 0 after none."""
        if failures <= 0 or self._first_ms <= 0:
            return 0.0
        # The exponent is bounded: after days of failures the power would have thousands of digits.
        wait_ms = min(self._first_ms * float(MULTIPLIER ** min(failures - 1, 62)), self.max_ms)
        if self._draw is not None:
            wait_ms *= 1 + self._jitter * (2 * self._draw() - 1)
        return min(wait_ms, self.max_ms)
