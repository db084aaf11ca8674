"""What other processes see of pipelines, and what dead ones leave."""

from __future__ import annotations

import fcntl
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
    Lock,
    Registration,
    is_held,
    running,
    send_signal,
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


def test_a_running_pipeline_is_listed_with_its_last_figures(tmp_path: Path) -> None:
    with Registration(tmp_path, entry()) as registration:
        registration.entry.state = "running"
        registration.entry.queries = [{"name": "windows", "lag": 3}]
        registration.write()

        (seen,) = running(tmp_path)

    assert (seen.name, seen.state, seen.queries) == ("orders", "running", [{"name": "windows", "lag": 3}])


def test_an_ended_pipeline_is_not_listed(tmp_path: Path) -> None:
    with Registration(tmp_path, entry()):
        pass

    assert running(tmp_path) == []


def test_two_pipelines_of_one_name_cannot_run(tmp_path: Path) -> None:
    with (
        Registration(tmp_path, entry()),
        pytest.raises(AlreadyRunning, match="penstock pipeline stop orders"),
        Registration(tmp_path, entry()),
    ):
        pass


def test_files_of_a_killed_pipeline_are_removed_and_its_name_is_free(tmp_path: Path) -> None:
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


def test_an_ended_pipeline_leaves_only_its_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "orders" / "checkpoints").mkdir(parents=True)
    with Registration(tmp_path, entry()):
        pass
    with pytest.raises(ZeroDivisionError), Registration(tmp_path, entry()):
        raise ZeroDivisionError

    assert [file.name for file in tmp_path.iterdir()] == ["orders"]


def test_a_lock_that_was_deleted_while_waiting_is_taken_again(tmp_path: Path) -> None:
    first = Lock.take(tmp_path, "orders")
    assert first is not None
    waiting = os.open(tmp_path / "orders.lock", os.O_RDWR)  # a file that its holder will delete
    first.release()
    fcntl.flock(waiting, fcntl.LOCK_EX)

    second = Lock.take(tmp_path, "orders")

    assert second is not None
    assert Lock.take(tmp_path, "orders") is None
    os.close(waiting)
    assert is_held(tmp_path, "orders")
    second.release()


def test_listing_removes_locks_and_empty_logs_of_failed_starts(tmp_path: Path) -> None:
    for name in ("orders.lock", "orders.log", "payments.json", "payments.lock", "payments.json.draft"):
        (tmp_path / name).write_text("")
    (tmp_path / "payments.log").write_text(
        "WARNING: Using incubator modules: jdk\n12:00:00 ERROR Query: no room\n"
    )

    assert running(tmp_path) == []
    assert [file.name for file in tmp_path.iterdir()] == ["payments.log"]


def test_a_renamed_pipeline_is_listed_by_its_new_name_and_frees_the_old_one(tmp_path: Path) -> None:
    with Registration(tmp_path, entry("a")) as registration:
        registration.rename("b")

        assert [one.name for one in running(tmp_path)] == ["b"]
        assert not is_held(tmp_path, "a")
        with Registration(tmp_path, entry("a")), pytest.raises(AlreadyRunning):
            registration.rename("a")
        assert is_held(tmp_path, "b")

    assert list(tmp_path.iterdir()) == []


def test_a_signal_reaches_the_holder_of_the_name(tmp_path: Path) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: heard.append(number))
    try:
        with Registration(tmp_path, entry()):
            (seen,) = running(tmp_path)
            assert send_signal(tmp_path, seen, signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert heard == [signal.SIGUSR1]


def test_a_process_that_reuses_the_id_of_a_dead_pipeline_gets_no_signal(tmp_path: Path) -> None:
    dead = entry()  # its process id is this test's, which does not hold the name
    stranger = Entry("orders", os.getppid(), "orders.py", "local[2]", "c", "l", started_ms=2)

    assert not send_signal(tmp_path, dead, signal.SIGKILL)
    with Registration(tmp_path, stranger):  # another process has the name now
        assert not send_signal(tmp_path, dead, signal.SIGKILL)


@pytest.mark.parametrize("name", ["", "../orders", "a/b", ".hidden", "x" * 101, "orders.log"])
def test_a_name_that_cannot_be_a_file_name_is_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadName):
        Registration(tmp_path, entry(name))


def test_state_is_next_to_a_brokers_data_directory() -> None:
    assert state_directory({"XDG_STATE_HOME": "/state"}) == Path("/state/penstock-pipelines")
