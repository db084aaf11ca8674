"""Waits for a condition, with a limit and without fixed pauses."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_SECONDS = 0.02
WAIT_SECONDS = 60.0  # for a busy machine with two cores; a quiet one needs much less


def wait_until(is_so: Callable[[], bool], what: str, *, seconds: float = WAIT_SECONDS) -> None:
    """Return as soon as `is_so()` is true; fail with `what` at the time limit."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(POLL_SECONDS)
