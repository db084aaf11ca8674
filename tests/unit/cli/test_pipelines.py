"""What `penstock pipeline` and `penstock spark` say without a Spark in sight."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError

from penstock.cli.failures import Refusal
from penstock.cli.main import main
from penstock.cli.output import Output
from penstock.cli.pipeline_run import Ending, _spark_of
from penstock.cli.pipeline_screen import line_of, screen_for, table_of
from penstock.spark.cluster import Cluster, ClusterFailed
from penstock.spark.pipelines.figures import QueryFigures
from penstock.spark.pipelines.logs import RunLog
from penstock.spark.pipelines.registry import Entry, Registration, state_directory


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def figures(**more: object) -> QueryFigures:
    told = {"state": "running", "batch": 3, "rows_in": 1200, "batch_ms": 250, "lag": 7, "goal": 10, "done": 5}
    return QueryFigures("windows", **{**told, **more})  # type: ignore[arg-type]


def registered() -> Registration:
    entry = Entry("orders", os.getpid(), "orders.py", "local[2]", "c", "l", started_ms=0, state="running")
    entry.queries = [figures().as_json()]
    return Registration(state_directory(), entry)


def test_where_nothing_runs_it_says_how_to_run_something(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "list"]) == 0

    assert "`penstock pipeline run FILE`" in capsys.readouterr().err


def test_what_runs_is_listed_with_its_lag(capsys: pytest.CaptureFixture[str]) -> None:
    with registered():
        assert main(["pipeline", "list", "--json"]) == 0

    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["name"], listed["state"], listed["lag"]) == ("orders", "running", 7)


def test_the_status_of_one_tells_its_queries(capsys: pytest.CaptureFixture[str]) -> None:
    with registered():
        assert main(["pipeline", "status", "orders"]) == 0

    assert "windows" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["status", "stop"])
def test_one_that_does_not_run_is_told_with_those_that_do(
    what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with registered():
        assert main(["pipeline", what, "payments"]) == 1

    assert "no pipeline payments runs here; running: orders" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_refused_before_spark_starts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "run", "nowhere.py"]) == 1

    assert "nowhere.py: there is no such file" in capsys.readouterr().err


def test_a_line_tells_what_a_person_wants_to_know() -> None:
    told = line_of(figures(state_rows=5, state_bytes=2048, rows_out=9))

    expected = "windows: batch 3, 1,200 in (0/s), 9 out, 250 ms, lag 7, state 5 rows, 2.0 KiB, caught up 50%"
    assert told == expected


def test_lines_are_told_once_for_each_batch(capsys: pytest.CaptureFixture[str]) -> None:
    screen = screen_for("orders", Output(as_json=True))

    screen.show([figures()])
    screen.show([figures()])

    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["pipeline"] == "orders"


def test_a_name_from_elsewhere_cannot_move_the_cursor() -> None:
    from rich.console import Console

    console = Console(record=True, width=120, file=io.StringIO())
    bad = figures()
    bad.name = "evil\x1b[2J"
    console.print(table_of("x", [bad]))

    assert "\x1b[2J" not in console.export_text()


def test_the_first_wish_to_end_is_heard_and_the_second_obeyed() -> None:
    with Ending() as ending:
        os.kill(os.getpid(), signal.SIGTERM)
        assert ending.is_asked()

        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_cluster_whose_port_is_taken_is_not_started(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(ClusterFailed, match="choose another port"), Cluster(port=port, folder=tmp_path):
            pass


def test_a_jvm_that_has_gone_is_a_sentence_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone:
        """A session whose JVM was killed, by a signal to all of its group for instance."""

        def stop(self) -> None:
            raise Py4JNetworkError("Answer from Java side is empty")

    monkeypatch.setattr("penstock.spark.sessions.session", lambda *_, **__: Gone())
    log = RunLog(tmp_path, "orders")

    with _spark_of("orders", "local", {}, log):
        pass  # it ended in order, and the JVM first
    with (
        pytest.raises(Refusal, match=r"^orders: Spark has gone .* it goes on where it was"),
        _spark_of("orders", "local", {}, log),
    ):
        raise Py4JNetworkError("Error while sending or receiving")
    with (
        pytest.raises(Refusal, match=r"^orders: Spark has gone"),
        _spark_of("orders", "local", {}, log),
    ):
        exec("raise ConnectionRefusedError", {"__name__": "py4j.clientserver"})
    with pytest.raises(ConnectionRefusedError), _spark_of("orders", "local", {}, log):
        raise ConnectionRefusedError  # a broker's, say
