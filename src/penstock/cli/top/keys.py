"""Reads keys without waiting for Enter.

Inside the context manager the terminal delivers each key at once and does not echo it; at the end it is restored. If
stdin is not a terminal there are no keys, and `wait` only sleeps.
"""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from types import TracebackType
from typing import Self


class Keys:
    def __init__(self) -> None:
        self._fd = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._before: list[object] | None = None

    def __enter__(self) -> Self:
        if self._fd is not None:
            self._before = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fd is not None and self._before is not None:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)  # type: ignore[arg-type]

    def wait(self, seconds: float) -> str | None:
        """The next key, or None after this time."""
        if self._fd is None:
            time.sleep(seconds)
            return None
        ready, _, _ = select.select([self._fd], [], [], seconds)
        return os.read(self._fd, 1).decode("ascii", "replace") if ready else None
