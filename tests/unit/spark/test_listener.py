"""The driver commits a query's progress when the query is idle or terminated, and never out of order."""

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
    """A timer that the test fires."""

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
        self.reported: list[Offsets] = []
        self.is_asked = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()

    def commit(self, offsets: Offsets, *, is_late: bool = False) -> None:
        assert is_late
        self.is_asked.set()
        assert self.may_answer.wait(PATIENCE_S)
        self.reported.append(offsets)


@pytest.fixture
def progress() -> Progress:
    return Progress()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, progress: Progress) -> Run:
    monkeypatch.setattr("penstock.spark.listener.threading.Timer", Timer)
    return Run([Source(Lookup(Options.read(OPTIONS, Use.STREAM_READ)), progress)])


def test_the_listener_does_not_commit_for_a_busy_query(run: Run, progress: Progress) -> None:
    run.note([StreamOffset({A0: 1})])
    first = Timer.last
    run.note([StreamOffset({A0: 2})])

    assert first.is_cancelled
    assert progress.reported == []


def test_the_last_end_of_an_idle_query_is_committed_once(run: Run, progress: Progress) -> None:
    run.note([StreamOffset({A0: 1})])
    run.note([StreamOffset({A0: 2})])

    run.commit()  # on the timer's thread
    run.commit()

    assert Timer.last.is_started
    assert Timer.last.daemon
    assert progress.reported == [{A0: 2}]


def beside(call: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def test_a_slow_broker_delays_no_events_and_commits_stay_in_order(run: Run, progress: Progress) -> None:
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
    last = beside(run.commit)  # the query terminates, and `stop` waits for this
    assert progress.reported == []

    progress.may_answer.set()
    last.join(PATIENCE_S)
    assert progress.reported == [{A0: 1}, {A0: 2}]
    slow.join(PATIENCE_S)


def test_offsets_of_another_source_are_not_committed_to_this_group(run: Run, progress: Progress) -> None:
    run.note([StreamOffset({B0: 7}), StreamOffset({A0: 2})])

    run.commit()

    assert progress.reported == [{A0: 2}]


def test_only_sources_with_a_group_are_watched() -> None:
    without = {name: value for name, value in OPTIONS.items() if name != "groupId"}

    assert len(sources_of([OPTIONS, without, {"subscribe": "a"}])) == 1


class Session:
    """As much of a session as the end of the program needs."""

    def __init__(self, run: str, reported: list[str]) -> None:
        query = SimpleNamespace(runId=run, stop=lambda: reported.append(f"stop {run}"))
        self.streams = SimpleNamespace(active=[query], removeListener=lambda listener: None)
        self.conf = SimpleNamespace(set=lambda name, value: None)
        self.sparkContext: Any = SimpleNamespace(_jsc=object())


class TransactionCleanup:
    def __init__(self, runs: set[str], reported: list[str]) -> None:
        self.runs = runs
        self._told = reported

    def retire(self, run: str) -> None:
        self.runs = self.runs - {run}
        self._told.append(f"retire {run}")

    def end(self) -> None:
        self._told.append("end")


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    reported: list[str] = []
    monkeypatch.setattr(listener, "LISTENERS", [])
    monkeypatch.setattr(listener, "_owns_jvm", lambda: True)
    monkeypatch.setattr(listener, "CLEANUP", TransactionCleanup({"one", "two"}, reported))
    return reported


def test_queries_of_all_sessions_are_stopped_before_any_run_is_retired(reported: list[str]) -> None:
    one, two = (ProgressListener(Session(run, reported)) for run in ("one", "two"))  # type: ignore[arg-type]

    listener.end()

    assert [one, two] == listener.LISTENERS
    assert reported == ["stop one", "stop two", "retire one", "retire two", "end"]


def test_a_stopped_session_does_not_prevent_the_end_of_another(reported: list[str]) -> None:
    first = Session("one", reported)
    ProgressListener(first)  # type: ignore[arg-type]
    first.streams, first.sparkContext._jsc = None, None
    second = ProgressListener(Session("two", reported))  # type: ignore[arg-type]

    listener.end()

    assert [second] == listener.LISTENERS
    assert reported == ["stop two", "retire one", "retire two", "end"]
