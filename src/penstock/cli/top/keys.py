"""What is pressed on the keyboard, without waiting for Enter.

While it is entered, the terminal gives every key at once and shows none of them; however it is left, the terminal
is as it was. Where stdin is no terminal there are no keys, and waiting for one is only waiting.
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
        """The next key, or None when the time is up."""
        if self._fd is None:
            time.sleep(seconds)
            return None
        ready, _, _ = select.select([self._fd], [], [], seconds)
        return os.read(self._fd, 1).decode("ascii", "replace") if ready else None
