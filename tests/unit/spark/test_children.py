"""Child processes end with their parent, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from harness.waiting import wait_until
from penstock.spark.children import Child

SLEEPER = [sys.executable, "-c", "import signal; signal.pause()"]
MAKER = f"""
import signal, sys
from pathlib import Path
from penstock.spark.children import Child
child = Child("a sleeper", {SLEEPER!r}, log=Path(sys.argv[1]))
print(child.pid, flush=True)
signal.pause()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent has died")
def test_a_child_does_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    maker = subprocess.Popen(
        [sys.executable, "-c", MAKER, str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert maker.stdout is not None
    child = psutil.Process(int(maker.stdout.readline()))

    maker.send_signal(signal.SIGKILL)
    maker.communicate()

    wait_until(
        lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "the child has ended"
    )


def test_a_child_ends_on_terminate(tmp_path: Path) -> None:
    child = Child("a sleeper", SLEEPER, log=tmp_path / "log")
    assert child.status is None

    child.terminate()
    child.wait()

    assert child.status == -signal.SIGTERM


def test_a_child_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); signal.pause()"
    child = Child("a deaf one", [sys.executable, "-c", deaf], log=tmp_path / "log")
    wait_until(lambda: "deaf" in child.log_tail(), "it is deaf")

    child.terminate()
    child.wait(seconds=0.0)

    assert child.status == -signal.SIGKILL


def test_the_log_tail_leaves_out_java_stack_frames(tmp_path: Path) -> None:
    message = (
        "import sys; print('first'); print('java.lang.Error: no memory'); print('\\tat org.apache.Spark')"
    )
    child = Child("a failing one", [sys.executable, "-c", message], log=tmp_path / "log")

    child.wait()

    assert child.log_tail() == "first\njava.lang.Error: no memory"
