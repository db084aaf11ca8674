"""How a program's queries are started, watched and stopped; with fake queries."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import UnknownTopicOrPartition
from penstock.spark.pipelines.loading import BadProgram, Program, load
from penstock.spark.pipelines.outages import Cluster, OutageProbe
from penstock.spark.pipelines.running import QueryFailed, Run


class FakeProgress:
    def __init__(self, batch: int) -> None:
        self.batchId = batch
        reported = {"batchId": batch, "timestamp": f"{batch:05}", "numInputRows": 10, "batchDuration": 5}
        self.json = json.dumps(reported)


class FakeQuery:
    """A query that finishes a batch at every poll, while it is in one."""

    def __init__(self, name: str | None = None, *, batches_left: int = 0) -> None:
        self.name = name
        self.isActive = True
        self.isAsking = False
        self.batches_left = batches_left
        self.recentProgress: list[FakeProgress] = []
        self.stopped_after: int | None = None
        self.error: Exception | None = None

    @property
    def lastProgress(self) -> FakeProgress | None:
        return self.recentProgress[-1] if self.recentProgress else None

    @property
    def status(self) -> dict[str, Any]:
        is_at_work = self.batches_left > 0
        if self.isAsking:
            return {"isTriggerActive": True, "message": "Getting offsets from orders"}
        if is_at_work:
            self.batches_left -= 1
            self.recentProgress.append(FakeProgress(len(self.recentProgress)))
        return {"isTriggerActive": is_at_work, "message": "Processing new data"}

    def stop(self) -> None:
        if self.isActive:
            self.stopped_after = len(self.recentProgress)
        self.isActive = False

    def exception(self) -> Exception | None:
        return self.error


class FakeWriter:
    """A fake of `df.writeStream`."""

    def __init__(self) -> None:
        self.said: dict[str, Any] = {}
        self.query = FakeQuery()

    def queryName(self, name: str) -> FakeWriter:
        self.query.name = name
        return self

    def option(self, name: str, value: str) -> FakeWriter:
        self.said[name] = value
        return self

    def trigger(self, **kinds: Any) -> FakeWriter:
        self.said.update(kinds)
        return self

    def start(self) -> FakeQuery:
        return self.query


class FakeSession:
    """As much of a session as a run needs."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}
        self.conf = self
        self.master = "local[2]"
        self.sparkContext = self

    def set(self, name: str, value: str) -> None:
        self.settings[name] = value

    def setLogLevel(self, level: str) -> None:
        pass


def run_of(returned: Any, *, is_once: bool = False) -> Run:
    pipeline: Callable[[Any], Any] = lambda spark: returned  # noqa: E731
    return running_as(Program("orders", None, pipeline), is_once=is_once)


def running_as(program: Program, *, is_once: bool = False) -> Run:
    session: Any = FakeSession()
    return Run(program, session, name="orders", checkpoint="/place/", is_once=is_once)


def test_an_unstarted_query_gets_a_name_and_a_checkpoint() -> None:
    writer = FakeWriter()
    run = run_of(writer)

    run.start()

    assert [figures.name for figures in run.figures] == ["orders"]
    assert writer.said == {"checkpointLocation": "/place/orders"}


def test_several_queries_are_named_by_number_or_by_key() -> None:
    numbered, named = run_of([FakeWriter(), FakeWriter()]), run_of({"a": FakeWriter(), "b": FakeWriter()})

    numbered.start()
    named.start()

    assert [figures.name for figures in numbered.figures] == ["orders-1", "orders-2"]
    assert [figures.name for figures in named.figures] == ["a", "b"]


def test_a_started_query_is_used_unchanged() -> None:
    query = FakeQuery("own")
    run = run_of(query)

    run.start()

    assert run.watched[0].query is query


def test_once_uses_available_now() -> None:
    writer = FakeWriter()

    run_of(writer, is_once=True).start()

    assert writer.said["availableNow"] is True


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (17, "returned an int instead of a query"),
        ("query", "returned a str instead of a query"),
        ([object()], "returned an object instead of a query"),
        ([], "returned no query and started none"),
    ],
)
def test_a_program_that_returns_no_query_is_rejected_with_a_hint(returned: Any, message: str) -> None:
    with pytest.raises(BadProgram, match=rf"{message}; return `df\.writeStream"):
        run_of(returned).start()


def test_all_reports_between_two_polls_are_counted() -> None:
    query = FakeQuery("own")
    run = run_of(query)
    run.start()
    query.recentProgress = [FakeProgress(0)]
    run.poll()

    query.recentProgress = [FakeProgress(batch) for batch in range(5)]
    run.poll()

    assert run.figures[0].rows_in == 50


def test_a_stop_waits_for_the_current_batch_and_no_other() -> None:
    query = FakeQuery("own", batches_left=100)
    run = run_of(query)
    run.start()

    run.stop()

    assert query.stopped_after == 1
    assert run.figures[0].state == "stopped"


def test_a_query_that_waits_for_data_is_stopped_at_once() -> None:
    query = FakeQuery("own")
    run = run_of(query)
    run.start()

    run.stop()

    assert query.stopped_after == 0


class FakeApp:
    """An App of two stages; the second reads the output of the first."""

    def __init__(self) -> None:
        self.begun: list[FakeQuery] = []
        self.is_stopped = False
        self.until: str | None = None
        self.left = [FakeQuery("first"), FakeQuery("second"), FakeQuery("first")]

    def start(self, spark: Any, *, until: str | None = None) -> FakeApp:
        self.until = until
        self.go_on()
        return self

    def go_on(self) -> bool:
        if self.begun and self.begun[-1].isActive:
            return True
        if not self.left:
            return False
        self.begun.append(self.left.pop(0))
        return True

    def begin_again(self) -> None:
        if self.begun[-1].error is not None:
            self.begun.append(FakeQuery(self.begun[-1].name))

    def __iter__(self) -> Iterator[FakeQuery]:
        return iter(self.begun[-1:])

    def stop(self) -> None:
        self.is_stopped = True


def test_an_app_that_is_run_once_is_watched_stage_by_stage() -> None:
    app = FakeApp()
    run = running_as(Program("orders", app, None), is_once=True)
    run.start()
    seen = []
    for batches in (2, 1, 1):
        query = app.begun[-1]
        first = sum(len(before.recentProgress) for before in app.begun[:-1] if before.name == query.name)
        query.recentProgress = [FakeProgress(first + batch) for batch in range(batches)]
        assert run.poll()
        seen.append({figures.name: figures.rows_in for figures in run.figures})
        query.isActive = False
        is_left = run.poll()

    assert app.until == "end"
    assert seen == [{"first": 20}, {"first": 20, "second": 10}, {"second": 10, "first": 30}]
    assert not is_left
    assert [figures.state for figures in run.figures] == ["done", "done"]


def test_an_app_that_is_run_once_stops_at_the_first_request() -> None:
    app = FakeApp()
    run = running_as(Program("orders", app, None), is_once=True)
    run.start()
    app.begun[0].batches_left = 100

    run.stop()

    assert app.begun[0].stopped_after == 1
    assert app.is_stopped
    assert len(app.left) == 2


def test_a_query_that_an_app_restarts_keeps_its_figures() -> None:
    app = FakeApp()
    run = running_as(Program("orders", app, None))
    run.start()
    lost = app.begun[0]
    lost.recentProgress = [FakeProgress(0)]
    assert run.poll()
    lost.isActive, lost.error = False, RuntimeError("Broken pipe")

    assert run.poll()
    app.begun[1].recentProgress = [FakeProgress(1)]
    assert run.poll()

    assert [(figures.name, figures.rows_in) for figures in run.figures] == [("first", 20)]


def test_a_query_that_ended_by_itself_is_done() -> None:
    query = FakeQuery("own")
    run = run_of(query)
    run.start()
    query.isActive = False

    assert not run.poll()
    assert run.figures[0].state == "done"


def test_a_failed_query_is_reported_with_its_cause() -> None:
    query = FakeQuery("own")
    run = run_of(query)
    run.start()
    query.isActive = False
    query.error = RuntimeError('Traceback (most recent call last):\n  File "x"\nValueError: no price\n')

    with pytest.raises(QueryFailed, match="orders: the query own failed: ValueError: no price"):
        run.poll()


class FakeClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_silent_query_shows_the_broker_it_waits_for() -> None:
    away = {"a:9092"}
    clock = FakeClock()
    query = FakeQuery("own")
    query.isAsking = True
    outages = OutageProbe(
        probe=lambda servers: servers not in away, clock=clock, run_in_background=lambda work: work()
    )
    run = Run(
        Program("orders", None, lambda spark: query),
        FakeSession(),  # type: ignore[arg-type]
        name="orders",
        checkpoint="/place/",
        outages=outages,
        find_clusters=lambda spark, query: [Cluster("a:9092", 60.0)],
        clock=clock,
    )
    run.start()
    (figures,) = run.figures

    run.poll()
    assert (figures.state, figures.waits_for) == ("starting", None)  # it may be about to report
    clock.now = 2.0
    run.poll()
    clock.now = 7.5
    run.poll()
    assert (figures.state, figures.waits_for, figures.waiting_seconds) == ("waiting", "a:9092", 5)
    assert figures.patience_seconds == 60

    away.clear()
    clock.now = 10.0
    run.poll()
    assert (figures.state, figures.waits_for, figures.at_work_seconds) == ("starting", None, 10)

    query.recentProgress = [FakeProgress(0)]
    run.poll()
    away.add("a:9092")
    clock.now = 11.0
    run.poll()
    assert figures.state == "running"  # a query that has just reported is not probed
    clock.now = 20.0
    run.poll()
    assert (figures.state, figures.rows_in_per_second, figures.lag) == ("waiting", 0.0, None)


def test_a_program_without_executors_says_so() -> None:
    clock = FakeClock()
    query = FakeQuery("own")
    query.isAsking = True
    run = Run(
        Program("orders", None, lambda spark: query),
        FakeSession(),  # type: ignore[arg-type]
        name="orders",
        checkpoint="/place/",
        outages=OutageProbe(probe=lambda _: True, clock=clock, run_in_background=lambda work: work()),
        find_clusters=lambda spark, query: [],
        lacks_workers=lambda spark: True,
        clock=clock,
    )
    run.start()
    seen = []
    for clock.now in (0.0, 5.0, 10.0):
        run.poll()
        seen.append(run.figures[0].lacks_workers)
    query.recentProgress = [FakeProgress(0)]
    run.poll()

    assert seen == [False, False, True]  # executors need time to start
    assert not run.figures[0].lacks_workers


def test_a_stop_does_not_wait_for_a_batch_without_executors() -> None:
    query = FakeQuery("own", batches_left=100)
    run = run_of(query)
    run.start()
    run.figures[0].lacks_workers = True

    run.stop()

    assert query.stopped_after == 0


def test_an_idle_query_is_not_probed() -> None:
    clock = FakeClock()
    asked: list[str] = []
    outages = OutageProbe(
        probe=lambda servers: bool(asked.append(servers)), clock=clock, run_in_background=lambda work: work()
    )
    run = Run(
        Program("orders", None, lambda spark: FakeQuery("own")),
        FakeSession(),  # type: ignore[arg-type]
        name="orders",
        checkpoint="/place/",
        outages=outages,
        find_clusters=lambda spark, query: [Cluster("a:9092")],
        clock=clock,
    )
    run.start()

    for clock.now in (0.0, 5.0, 50.0):
        run.poll()

    assert asked == []
    assert run.figures[0].waits_for is None


def test_an_unknown_option_gives_one_sentence_and_no_traceback(tmp_path: Path) -> None:
    # What Spark raises if a Python source rejects its options.
    pages = (
        "[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance: "
        "Traceback (most recent call last):\n"
        '  File "source.py", line 54, in schema\n'
        "penstock.spark.errors.BadOption: unknown option grupid; did you mean groupId?\n SQLSTATE: 38000"
    )
    file = tmp_path / "orders.py"
    file.write_text(
        f"from pyspark.errors import AnalysisException\ndef pipeline(spark):\n    raise AnalysisException({pages!r})\n"
    )

    with pytest.raises(BadProgram) as caught:
        running_as(load(file)).start()

    first, line = str(caught.value).splitlines()
    assert first == "orders could not be started: BadOption: unknown option grupid; did you mean groupId?"
    assert line.startswith(f"  {file}, line 3, in pipeline: raise AnalysisException(")


def test_a_function_that_raises_is_reported_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "orders.py"
    file.write_text('def pipeline(spark):\n    return {}["topic"]\n')

    with pytest.raises(BadProgram) as caught:
        running_as(load(file)).start()

    assert str(caught.value).splitlines() == [
        "orders could not be started: KeyError: 'topic'",
        f'  {file}, line 2, in pipeline: return {{}}["topic"]',
    ]


def test_penstocks_own_errors_are_shown_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "orders.py"
    file.write_text(
        "from penstock.errors import UnknownTopicOrPartition\n"
        "def pipeline(spark):\n    raise UnknownTopicOrPartition('no orders')\n"
    )

    with pytest.raises(UnknownTopicOrPartition, match=r"^no orders; create the topic"):
        running_as(load(file)).start()
