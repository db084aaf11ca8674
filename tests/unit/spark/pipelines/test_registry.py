"""What other processes see of pipelines, and what the dead leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.spark.pipelines.registry import (
    AlreadyRunning,
    BadName,
    Entry,
    Registration,
    running,
    state_directory,
)

HOLD = """
import sys
from pathlib import Path
from penstock.spark.pipelines.registry import Entry, Registration
entry = Entry("orders", 1, "orders.py", "local[2]", "c", "l", 0)
with Registration(Path(sys.argv[1]), entry):
    print("held", flush=True)
    sys.stdin.read()
"""


def entry(name: str = "orders") -> Entry:
    return Entry(name, os.getpid(), "orders.py", "local[2]", "/checkpoint", "/log", started_ms=1)


def test_who_runs_is_seen_with_what_it_last_did(tmp_path: Path) -> None:
    with Registration(tmp_path, entry()) as registration:
        registration.entry.state = "running"
        registration.entry.queries = [{"name": "windows", "lag": 3}]
        registration.write()

        (seen,) = running(tmp_path)

    assert (seen.name, seen.state, seen.queries) == ("orders", "running", [{"name": "windows", "lag": 3}])


def test_who_has_ended_is_not_seen(tmp_path: Path) -> None:
    with Registration(tmp_path, entry()):
        pass

    assert running(tmp_path) == []


def test_two_of_one_name_do_not_run_at_once(tmp_path: Path) -> None:
    with (
        Registration(tmp_path, entry()),
        pytest.raises(AlreadyRunning, match="penstock pipeline stop orders"),
        Registration(tmp_path, entry()),
    ):
        pass


def test_what_a_killed_one_left_is_removed_and_its_name_is_free(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    assert [one.name for one in running(tmp_path)] == ["orders"]

    holder.send_signal(signal.SIGKILL)
    holder.communicate()

    assert (tmp_path / "orders.json").exists()
    assert running(tmp_path) == []
    assert not (tmp_path / "orders.json").exists()
    with Registration(tmp_path, entry()):
        assert [one.name for one in running(tmp_path)] == ["orders"]


@pytest.mark.parametrize("name", ["", "../orders", "a/b", ".hidden", "x" * 101])
def test_a_name_that_is_none_of_a_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadName):
        Registration(tmp_path, entry(name))


def test_state_lies_beside_a_brokers_data_and_not_in_it() -> None:
    assert state_directory({"XDG_STATE_HOME": "/state"}) == Path("/state/penstock-pipelines")
