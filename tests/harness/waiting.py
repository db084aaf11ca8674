"""Waiting for what a broker does in its own time, with a limit and no fixed pause."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_SECONDS = 0.02
WAIT_SECONDS = 60.0  # a busy machine of two cores; nothing waits that long on a quiet one


def wait_until(is_so: Callable[[], bool], what: str, *, seconds: float = WAIT_SECONDS) -> None:
    """Returns as soon as `is_so()` holds; fails, saying `what`, when it does not in time."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(POLL_SECONDS)
