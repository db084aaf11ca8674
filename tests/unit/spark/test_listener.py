"""When a query's progress is committed by the driver: when the query rests or is over, and never out of order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.cluster import TopicPartition
from penstock.spark import listener
from penstock.spark.listener import ProgressListener, Run, Source, sources_of
from penstock.spark.lookup import Lookup
from penstock.spark.offsets import Offsets, StreamOffset
from penstock.spark.options import Options, Use
from penstock.spark.progress import GroupProgress

OPTIONS = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "a", "groupId": "g"}
PATIENCE_S = 30.0
A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)


class Timer:
    """A timer of which a test says when it is up."""

    last: Timer

    def __init__(self, _: float, call: object) -> None:
        self.call = call
        self.daemon = self.is_cancelled = self.is_started = False
        Timer.last = self

    def start(self) -> None:
        self.is_started = True

    def cancel(self) -> None:
        self.is_cancelled = True


class Progress(GroupProgress):
    def __init__(self) -> None:
        super().__init__(Options.read(OPTIONS, Use.STREAM_READ))
        self.told: list[Offsets] = []
        self.is_asked = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()

    def commit(self, offsets: Offsets, *, is_late: bool = False) -> None:
        assert is_late
        self.is_asked.set()
        assert self.may_answer.wait(PATIENCE_S)
        self.told.append(offsets)


@pytest.fixture
def progress() -> Progress:
    return Progress()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, progress: Progress) -> Run:
    monkeypatch.setattr("penstock.spark.listener.threading.Timer", Timer)
    return Run([Source(Lookup(Options.read(OPTIONS, Use.STREAM_READ)), progress)])


def test_a_query_that_goes_on_is_left_to_its_source(run: Run, progress: Progress) -> None:
    run.note([StreamOffset({A0: 1})])
    first = Timer.last
    run.note([StreamOffset({A0: 2})])

    assert first.is_cancelled
    assert progress.told == []


def test_a_query_that_rests_has_its_last_end_committed_once(run: Run, progress: Progress) -> None:
    run.note([StreamOffset({A0: 1})])
    run.note([StreamOffset({A0: 2})])

    run.commit()  # as the timer does
    run.commit()

    assert Timer.last.is_started
    assert Timer.last.daemon
    assert progress.told == [{A0: 2}]


def beside(call: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def test_a_slow_broker_holds_up_nobody_who_tells_of_more_and_the_order_stays(
    run: Run, progress: Progress
) -> None:
    progress.may_answer.clear()
    run.note([StreamOffset({A0: 1})])
    slow = beside(run.commit)
    assert progress.is_asked.wait(PATIENCE_S)

    def tell() -> None:
        run.note([StreamOffset({A0: 2})])
        run.rest()

    telling = beside(tell)
    telling.join(PATIENCE_S)
    assert not telling.is_alive()
    last = beside(run.commit)  # the query is over, and whoever stops it waits for this
    assert progress.told == []

    progress.may_answer.set()
    last.join(PATIENCE_S)
    assert progress.told == [{A0: 1}, {A0: 2}]
    slow.join(PATIENCE_S)


def test_what_another_source_of_the_query_read_is_not_this_groups_business(
    run: Run, progress: Progress
) -> None:
    run.note([StreamOffset({B0: 7}), StreamOffset({A0: 2})])

    run.commit()

    assert progress.told == [{A0: 2}]


def test_only_sources_with_a_group_are_watched() -> None:
    without = {name: value for name, value in OPTIONS.items() if name != "groupId"}

    assert len(sources_of([OPTIONS, without, {"subscribe": "a"}])) == 1


class Session:
    """Of a session what is asked of it when the program ends."""

    def __init__(self, run: str, told: list[str]) -> None:
        query = SimpleNamespace(runId=run, stop=lambda: told.append(f"stop {run}"))
        self.streams = SimpleNamespace(active=[query], removeListener=lambda listener: None)
        self.conf = SimpleNamespace(set=lambda name, value: None)
        self.sparkContext: Any = SimpleNamespace(_jsc=object())


class Caretaker:
    def __init__(self, runs: set[str], told: list[str]) -> None:
        self.runs = runs
        self._told = told

    def retire(self, run: str) -> None:
        self.runs = self.runs - {run}
        self._told.append(f"retire {run}")

    def end(self) -> None:
        self._told.append("end")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    told: list[str] = []
    monkeypatch.setattr(listener, "LISTENERS", [])
    monkeypatch.setattr(listener, "_ends_with_us", lambda: True)
    monkeypatch.setattr(listener, "CARETAKER", Caretaker({"one", "two"}, told))
    return told


def test_queries_of_all_sessions_are_stopped_before_any_run_is_retired(told: list[str]) -> None:
    one, two = (ProgressListener(Session(run, told)) for run in ("one", "two"))  # type: ignore[arg-type]

    listener.end()

    assert [one, two] == listener.LISTENERS
    assert told == ["stop one", "stop two", "retire one", "retire two", "end"]


def test_a_session_that_was_stopped_does_not_keep_another_from_its_end(told: list[str]) -> None:
    first = Session("one", told)
    ProgressListener(first)  # type: ignore[arg-type]
    first.streams, first.sparkContext._jsc = None, None
    second = ProgressListener(Session("two", told))  # type: ignore[arg-type]

    listener.end()

    assert [second] == listener.LISTENERS
    assert told == ["stop two", "retire one", "retire two", "end"]
