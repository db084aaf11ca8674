"""The warning that every client logs when it cannot reach a broker: once, after five seconds, with the reason.

A producer, a consumer and an admin all open connections through `transport`, which reports here. The warning depends on
a timer and not on a failed attempt, because an address that drops packets fails no attempt for ten seconds.

Invariant: after `stop` there is no timer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)

WARN_AFTER_S = 5.0  # soon enough for a person who waits, and longer than the restart of a broker takes
PAUSE_MAX_S = 2.0  # between two attempts of one call; after a longer pause it is a new call


class Reachability:
    """Whether any broker can be reached, for one client."""

    def __init__(self, *, explain: Callable[[], str], is_connecting: Callable[[], bool]) -> None:
        self._explain = explain
        self._is_connecting = is_connecting
        self._timer: asyncio.TimerHandle | None = None
        self._last_attempt_at: float | None = None
        self._has_warned = False

    def attempt_began(self) -> None:
        """The client opens a connection, and has no other."""
        if self._last_attempt_at is not None and not self._is_waiting():  # a new call: it may warn again
            self._last_attempt_at = None
            self._has_warned = False
            self.stop()
        if self._timer is None and not self._has_warned:
            self._timer = asyncio.get_running_loop().call_later(WARN_AFTER_S, self._warn)

    def attempt_failed(self) -> None:
        self._last_attempt_at = asyncio.get_running_loop().time()

    def reached(self) -> None:
        """A broker answered."""
        self.stop()
        self._last_attempt_at = None
        if self._has_warned:
            logger.info("a broker answers again")
            self._has_warned = False

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _warn(self) -> None:
        self._timer = None
        if self._is_connecting() or self._is_waiting():
            self._has_warned = True
            logger.warning(
                "no broker has answered for %.0f s, still trying: %s", WARN_AFTER_S, self._explain()
            )

    def _is_waiting(self) -> bool:
        """Whether the last attempt failed so recently that its caller is still there to make another."""
        now = asyncio.get_running_loop().time()
        return self._last_attempt_at is not None and now - self._last_attempt_at <= PAUSE_MAX_S
