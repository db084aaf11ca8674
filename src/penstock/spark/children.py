"""Child processes that end with their parent, however it ends.

A JVM that outlives its parent holds ports and half a gigabyte. On Linux the kernel sends a child SIGTERM when its
parent dies, even by `kill -9`; on other systems only an orderly exit of the parent ends its children.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

STOP_SECONDS = 15.0  # a JVM that ignores SIGTERM for longer is killed
TAIL_LINES = 15
PR_SET_PDEATHSIG = 1


class Child:
    """A named process that writes its output to a file."""

    def __init__(
        self, name: str, command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        with open(log, "ab") as stream:
            # A new session: Ctrl-C reaches only the parent, which then ends its children in order.
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=None if environment is None else dict(environment),
                start_new_session=True,
                preexec_fn=_death_signal(),
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def status(self) -> int | None:
        """The exit status, or None while it runs."""
        return self._process.poll()

    def terminate(self) -> None:
        """Send SIGTERM; `wait` makes sure that it ends."""
        if self._process.poll() is None:
            self._process.terminate()

    def wait(self, seconds: float = STOP_SECONDS) -> None:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def log_tail(self) -> str:
        """The end of its log, to explain why it ended."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        useful = [line for line in lines if not line.startswith("\tat ")]  # without Java's stack frames
        return "\n".join(useful[-TAIL_LINES:])


def _death_signal() -> Callable[[], None] | None:
    """For Linux: the function that a child calls between fork and exec."""
    if sys.platform != "linux":
        return None
    # Look everything up here: between fork and exec a child must not import or take a lock.
    set_option = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def request_signal() -> None:
        set_option(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # the parent died in between
            os._exit(1)

    return request_signal
