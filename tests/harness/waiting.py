"""Waiting for what a broker does in its own time, with a limit and no fixed pause."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_SECONDS = 0.02


def wait_until(is_so: Callable[[], bool], what: str, *, seconds: float = 20.0) -> None:
    """Returns as soon as `is_so()` holds; fails, saying `what`, when it does not in time."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(POLL_SECONDS)
