"""What the driver does for runs that are over: never raises, never hangs, and says what it could not do."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from penstock.spark.options import Options, Use
from penstock.spark.sink import retiring
from penstock.spark.sink.retiring import Caretaker, SinkRun

OPTIONS = Options.read({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "out"}, Use.STREAM_WRITE)
RUN = SinkRun.of(OPTIONS, sink="q", run="r")


class Looks:
    """In place of the cluster: what was asked for, and what comes of it."""

    def __init__(self) -> None:
        self.seen: list[SinkRun] = []
        self.error: Exception | None = None
        self.has_looked = threading.Event()

    async def retire(self, run: SinkRun, patience_s: float) -> None:
        self.seen.append(run)
        self.has_looked.set()
        if self.error is not None:
            raise self.error


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    looks = Looks()
    monkeypatch.setattr(retiring, "_retire", looks.retire)
    return looks


@pytest.fixture
def caretaker() -> Iterator[Caretaker]:
    caretaker = Caretaker()
    yield caretaker
    caretaker.end()


def test_a_run_that_ends_in_a_batch_is_looked_at_now_and_when_its_tasks_are_gone(
    caretaker: Caretaker, looks: Looks
) -> None:
    caretaker.note(RUN)
    caretaker.note(RUN)
    assert caretaker.runs == {"r"}

    caretaker.retire("r")
    assert looks.has_looked.wait(60)
    caretaker.end()  # which does not wait for the tasks

    assert looks.seen == [RUN, RUN]
    assert caretaker.runs == set()


def test_a_run_that_ends_between_batches_is_looked_at_once(caretaker: Caretaker, looks: Looks) -> None:
    caretaker.note(RUN)

    caretaker.retire("r", is_whole=True)
    caretaker.end()

    assert looks.seen == [RUN]


def test_runs_that_do_not_write_exactly_once_are_left_alone(caretaker: Caretaker, looks: Looks) -> None:
    caretaker.retire("another")
    caretaker.end()

    assert looks.seen == []


def test_a_run_whose_session_was_stopped_is_looked_at_though_nobody_tells(
    caretaker: Caretaker, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retiring, "WATCH_S", 0.01)
    other = SinkRun.of(OPTIONS, sink="p", run="s")
    is_stopped = threading.Event()
    caretaker.note(RUN, is_over=is_stopped.is_set)
    caretaker.note(other, is_over=lambda: False)

    is_stopped.set()

    assert looks.has_looked.wait(60)
    assert caretaker.runs == {"s"}
    assert set(looks.seen) == {RUN}


def test_a_run_is_watched_also_when_there_was_none_for_a_while(
    caretaker: Caretaker, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retiring, "WATCH_S", 0.01)
    for _ in range(2):
        looks.has_looked.clear()
        caretaker.note(RUN, is_over=lambda: True)
        assert looks.has_looked.wait(60)


def test_what_cannot_be_ended_is_said_with_what_ends_it(
    caretaker: Caretaker, looks: Looks, caplog: pytest.LogCaptureFixture
) -> None:
    looks.error = OSError("nobody there")
    caretaker.note(RUN)

    caretaker.retire("r")
    caretaker.end()

    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    for words in (
        "query q is over",
        "penstock-q-r-*",
        "nobody there",
        "started again",
        "finish_query",
    ):
        assert words in record.getMessage()


def test_a_cluster_that_is_away_does_not_hold_up_the_end_of_a_program(
    caretaker: Caretaker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(retiring, "EXIT_S", 0.2)
    caretaker.note(RUN)
    caretaker.retire("r")

    caretaker.end()  # the real thing, which would go on trying for minutes

    assert "the program ended before the cluster had answered" in caplog.text
    caretaker.note(RUN)  # Spark may still call
    caretaker.retire("r")


def test_the_prefix_is_what_the_options_say() -> None:
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "transactionalIdPrefix": "ours"}

    run = SinkRun.of(Options.read(given, Use.STREAM_WRITE), sink="q", run="r")

    assert run.transactions == "ours-q-r-*"
