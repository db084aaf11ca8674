"""`penstock pipeline` and `penstock spark`, without Spark."""

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
from penstock.cli.pipeline_run import StopSignals, _spark_of, summary_of
from penstock.cli.pipeline_screen import batch_of, line_of, render, screen_for, table_of
from penstock.spark.cluster import Cluster, ClusterFailed
from penstock.spark.pipelines.figures import QueryFigures
from penstock.spark.pipelines.logs import RunLog
from penstock.spark.pipelines.registry import Entry, Registration, state_directory


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("PENSTOCK_SPARK", "")  # which a command sets for the program that it runs


def figures(**more: object) -> QueryFigures:
    shown = {
        "state": "running",
        "batch": 3,
        "rows_in": 1200,
        "batch_ms": 250,
        "lag": 7,
        "goal": 10,
        "done": 5,
    }
    return QueryFigures("windows", **{**shown, **more})  # type: ignore[arg-type]


def registered() -> Registration:
    entry = Entry("orders", os.getpid(), "orders.py", "local[2]", "c", "l", started_ms=0, state="running")
    entry.queries = [figures().as_json()]
    return Registration(state_directory(), entry)


def test_an_empty_list_suggests_how_to_start_a_pipeline(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "list"]) == 0

    assert "`penstock pipeline run FILE`" in capsys.readouterr().err


def test_running_pipelines_are_listed_with_their_lag(capsys: pytest.CaptureFixture[str]) -> None:
    with registered():
        assert main(["pipeline", "list", "--json"]) == 0

    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["name"], listed["state"], listed["lag"]) == ("orders", "running", 7)


def test_the_status_of_a_pipeline_lists_its_queries(capsys: pytest.CaptureFixture[str]) -> None:
    with registered():
        assert main(["pipeline", "status", "orders"]) == 0

    assert "windows" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["status", "stop"])
def test_an_unknown_pipeline_is_an_error_that_lists_the_running_ones(
    what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with registered():
        assert main(["pipeline", what, "payments"]) == 1

    assert "pipeline payments is not running; running: orders" in capsys.readouterr().err


def test_a_missing_file_is_an_error_before_spark_starts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "run", "nowhere.py"]) == 1

    assert "nowhere.py: no such file" in capsys.readouterr().err


def test_a_line_contains_the_main_figures() -> None:
    shown = line_of(figures(state_rows=5, state_bytes=2048, rows_out=9))

    expected = "windows: batch 3, 1,200 in (0/s), 9 out, 250 ms, lag 7, state 5 rows, 2.0 KiB, caught up 50%"
    assert shown == expected


def test_one_line_is_printed_per_batch(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_the_first_signal_requests_a_stop_and_the_second_interrupts() -> None:
    with StopSignals() as ending:
        os.kill(os.getpid(), signal.SIGTERM)
        assert ending.is_requested()

        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_cluster_whose_port_is_taken_is_not_started(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(ClusterFailed, match="choose another port"), Cluster(port=port, folder=tmp_path):
            pass


def test_an_invalid_memory_size_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", "cluster", "--memory", "lots"]) == 1

    assert "memory 'lots' is not a size such as 512m or 4g" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("--spark", "lokal"), "unknown Spark master 'lokal' (did you mean local?)"),
        (("--name", "a/b"), "'a/b' is not a valid pipeline name"),
        (("--set", "memory"), "such as --set spark.driver.memory=4g"),
    ],
)
def test_invalid_options_are_rejected_before_anything_starts(
    words: tuple[str, ...], shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "orders.py"
    file.write_text("def pipeline(spark): ...\n")

    assert main(["pipeline", "run", str(file), *words]) == 2

    assert shown in capsys.readouterr().err
    assert not state_directory().exists()


def test_a_group_of_commands_alone_shows_its_help_and_no_empty_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["spark"]) == 2

    shown = capsys.readouterr()
    assert "cluster" in shown.out
    assert shown.err == ""


def test_an_invalid_program_is_rejected_and_leaves_no_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "orders.py"
    file.write_text("def main(spark): ...\n")

    assert main(["pipeline", "run", str(file)]) == 1

    assert "should `main(spark)` be `pipeline(spark)`?" in capsys.readouterr().err
    assert not state_directory().exists()


def test_a_running_pipeline_is_detected_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "orders.py"
    file.write_text("def pipeline(spark): ...\n")

    with registered():
        assert main(["pipeline", "run", str(file)]) == 1

    shown = capsys.readouterr().err
    assert shown.startswith("penstock: orders is already running")


def test_the_log_of_another_pipeline_is_left_alone_by_a_file_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An App has a name of its own, and the file that another pipeline is named after.
    file = tmp_path / "orders.py"
    file.write_text("class App:\n    name = 'counts'\n    def start(self): ...\napp = App()\n")
    log = state_directory() / "orders.log"
    used: list[Path] = []

    def refuse(*_: object, log: Path, **__: object) -> None:
        used.append(log)
        raise Refusal("no Spark today")

    monkeypatch.setattr("penstock.spark.sessions.session", refuse)
    with registered():
        log.write_text("what orders said\n")
        assert main(["pipeline", "run", str(file)]) == 1

    assert used == [state_directory() / "counts.log"]
    assert log.read_text() == "what orders said\n"
    assert {each.name for each in state_directory().iterdir()} == {"orders.log"}


def test_a_signal_while_spark_starts_stops_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "orders.py"
    file.write_text("class App:\n    name = 'counts'\n    def start(self): ...\napp = App()\n")
    monkeypatch.setattr(
        "penstock.spark.sessions.session", lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM)
    )

    assert main(["pipeline", "run", str(file)]) == 0

    assert "counts: stopped before it started" in capsys.readouterr().err
    assert list(state_directory().iterdir()) == []


def test_the_error_names_the_log_of_a_killed_pipeline(capsys: pytest.CaptureFixture[str]) -> None:
    state_directory().mkdir(parents=True)
    log = state_directory() / "orders.log"
    log.write_text("12:00:00 ERROR Query: no room\n")

    assert main(["pipeline", "status", "orders"]) == 1

    assert f"running: none; the Spark log of its last run is {log}" in capsys.readouterr().err


def waiting_figures() -> QueryFigures:
    waiting = figures()
    waiting.set_outage("a:9092", seconds=75.0, patience_seconds=243.0)
    return waiting


def test_a_line_names_the_broker_that_does_not_answer_and_for_how_long() -> None:
    expected = "windows: no broker has answered at a:9092 for 75 s; still trying, for 4m 03s in all"

    assert line_of(waiting_figures()) == expected


def test_a_table_names_it_too() -> None:
    from rich.console import Console

    console = Console(record=True, width=120, file=io.StringIO())
    console.print(table_of("orders", [waiting_figures()]))

    shown = console.export_text()
    assert "waiting" in shown
    assert "windows: no broker has answered at a:9092" in shown


def test_in_a_pipe_an_outage_is_repeated_and_its_end_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([100.0, 100.0, 101.0, 111.0, 112.0])
    monkeypatch.setattr("penstock.cli.pipeline_screen.time.monotonic", lambda: next(times))
    screen = screen_for("orders", Output(as_json=False))
    waiting = waiting_figures()
    for _ in range(3):
        screen.show([waiting])
    waiting.end_outage()
    screen.show([waiting])

    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[-1].partition(":")[2][:30] for line in lines[:2]] == [
        " no broker has answered at a:9"
    ] * 2
    assert lines[2].endswith("windows: a:9092 answers again")


def test_a_slow_batch_is_reported_as_running(capsys: pytest.CaptureFixture[str]) -> None:
    screen = screen_for("orders", Output(as_json=False))
    first = QueryFigures("windows", at_work_seconds=9)

    screen.show([first])
    first.at_work_seconds = 12
    screen.show([first])
    screen.show([first])

    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith("windows: running its first batch for 12 s")
    first.lacks_workers = True
    assert "for 12 s; no worker of the cluster has accepted it: check that cores are free" in batch_of(first)


def test_others_see_whom_a_pipeline_waits_for(capsys: pytest.CaptureFixture[str]) -> None:
    registration = registered()
    registration.entry.queries = [waiting_figures().as_json()]
    with registration:
        assert main(["pipeline", "list", "--json"]) == 0
        (listed,) = json.loads(capsys.readouterr().out)
        assert main(["pipeline", "status", "--json"]) == 0
        (status,) = json.loads(capsys.readouterr().out)

    assert listed["state"] == status["state"] == "waiting for a:9092"


def test_a_summary_is_printed_at_the_end() -> None:
    assert summary_of(figures(state="done", rows_out=9)) == (
        "windows: done after batch 3; 1,200 records read, 9 written"
    )
    assert summary_of(figures(state="stopped", batch=-1)) == "windows: stopped before its first batch"


def test_a_killed_jvm_is_an_error_message_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone:
        """A session whose JVM was killed, by a signal to all of its group for instance."""

        def stop(self) -> None:
            raise Py4JNetworkError("Answer from Java side is empty")

    monkeypatch.setattr("penstock.spark.sessions.session", lambda *_, **__: Gone())
    log = RunLog(tmp_path, "orders")

    with _spark_of("orders", "local", {}, log, Output()):
        pass  # it ended in order, and the JVM first
    with (
        pytest.raises(Refusal, match=r"^orders: Spark has exited .* continues from its checkpoint"),
        _spark_of("orders", "local", {}, log, Output()),
    ):
        raise Py4JNetworkError("Error while sending or receiving")
    with (
        pytest.raises(Refusal, match=r"^orders: Spark has exited"),
        _spark_of("orders", "local", {}, log, Output()),
    ):
        exec("raise ConnectionRefusedError", {"__name__": "py4j.clientserver"})
    with pytest.raises(ConnectionRefusedError), _spark_of("orders", "local", {}, log, Output()):
        raise ConnectionRefusedError  # a broker's, say


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_no_figure_is_left_out_on_a_narrow_terminal(width: int) -> None:
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(render("orders", [figures(rows_in=1234567, rows_out=7654321, lag=999)], console))

    assert isinstance(console.file, io.StringIO)
    drawn = console.file.getvalue()
    for figure in ("windows", "1,234,567", "7,654,321", "999"):
        assert figure in drawn
    assert "…" not in drawn
