"""The events of a simulation: a fingerprint of all, and the text of the last ones.

Two runs of a seed must have the same fingerprint, in any process, with any hash seed and memory layout. Otherwise some
time or randomness bypassed the runtime's interfaces, and failures could not be repeated.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable

LINES_KEPT = 400


class Trace:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._hash = hashlib.blake2b(digest_size=16)
        self.count = 0
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self.on_line: Callable[[str], None] | None = None
        """Called with every line, to watch one seed."""

    def note(self, event: str) -> None:
        line = f"{self._now():11.6f}  {event}"
        self._hash.update(line.encode())
        self.count += 1
        self.lines.append(line)
        if self.on_line is not None:
            self.on_line(line)

    def fingerprint(self) -> str:
        return self._hash.hexdigest()
