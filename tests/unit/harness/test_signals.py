"""Tests that press Ctrl-C work in a run that was started in the background."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import harness.signals

PROGRAM = """
import signal, subprocess, sys
from harness.signals import restore_signals

restore_signals()
signal.raise_signal(signal.SIGHUP)  # survived
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
child = (
    "import signal;"
    "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler,"
    " signal.getsignal(signal.SIGHUP) is signal.SIG_DFL, signal.pthread_sigmask(signal.SIG_BLOCK, []))"
)
print(subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True).stdout)
"""


def test_ctrl_c_is_heard_where_the_run_was_started_with_it_ignored() -> None:
    def in_background() -> None:
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(harness.signals.__file__).parents[1])},
        preexec_fn=in_background,
    )

    assert done.stdout.split() == ["interrupted", "True", "True", "set()"], done.stderr
