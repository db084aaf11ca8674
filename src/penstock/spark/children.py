"""Processes that end with the one that started them, however that one ends.

A JVM that outlives its maker holds ports and half a gigabyte until somebody finds it. On Linux the kernel sends a child
SIGTERM when its parent dies, `kill -9` included; elsewhere only an orderly end of the parent takes its children along.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

STOP_SECONDS = 15.0  # a JVM that was told to end and runs for longer is killed
TAIL_LINES = 15
PR_SET_PDEATHSIG = 1


class Child:
    """A process with a name, whose output goes to a file."""

    def __init__(
        self, name: str, command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        with open(log, "ab") as stream:
            # A session of its own: Ctrl-C is for the parent, which then ends its children in order.
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=None if environment is None else dict(environment),
                start_new_session=True,
                preexec_fn=_tether(),
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def status(self) -> int | None:
        """Its exit status, or None as long as it runs."""
        return self._process.poll()

    def terminate(self) -> None:
        """Ask it to end; `wait` sees that it does."""
        if self._process.poll() is None:
            self._process.terminate()

    def wait(self, seconds: float = STOP_SECONDS) -> None:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def last_words(self) -> str:
        """The end of its log, for whoever has to find out why it ended."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        # The frames of a Java stack tell least.
        telling = [line for line in lines if not line.startswith("\tat ")]
        return "\n".join(telling[-TAIL_LINES:])


def _tether() -> Callable[[], None] | None:
    """What a child of Linux calls before it becomes another program."""
    if sys.platform != "linux":
        return None
    # All is looked up here: between fork and exec a child must not import, nor take a lock.
    set_option = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def tie() -> None:
        set_option(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died in between
            os._exit(1)

    return tie
