"""The cleanup of terminated runs never raises or hangs, and warns about what it could not do."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from penstock.spark.options import Options, Use
from penstock.spark.sink import cleanup
from penstock.spark.sink.cleanup import SinkRun, TransactionCleanup

OPTIONS = Options.read({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "out"}, Use.STREAM_WRITE)
RUN = SinkRun.of(OPTIONS, sink="q", run="r")


class FakeCluster:
    """A fake cluster: the requests, and their results."""

    def __init__(self) -> None:
        self.seen: list[SinkRun] = []
        self.error: Exception | None = None
        self.was_called = threading.Event()

    async def retire(self, run: SinkRun, patience_s: float) -> None:
        self.seen.append(run)
        self.was_called.set()
        if self.error is not None:
            raise self.error


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    cluster = FakeCluster()
    monkeypatch.setattr(cleanup, "_retire", cluster.retire)
    return cluster


@pytest.fixture
def cleaner() -> Iterator[TransactionCleanup]:
    cleaner = TransactionCleanup()
    yield cleaner
    cleaner.end()


def test_a_run_that_ends_in_a_batch_is_cleaned_at_once_and_after_its_tasks_ended(
    cleaner: TransactionCleanup, cluster: FakeCluster
) -> None:
    cleaner.add(RUN)
    cleaner.add(RUN)
    assert cleaner.runs == {"r"}

    cleaner.retire("r")
    assert cluster.was_called.wait(60)
    cleaner.end()  # without waiting for the tasks

    assert cluster.seen == [RUN, RUN]
    assert cleaner.runs == set()


def test_a_run_that_ends_between_batches_is_cleaned_once(
    cleaner: TransactionCleanup, cluster: FakeCluster
) -> None:
    cleaner.add(RUN)

    cleaner.retire("r", is_whole=True)
    cleaner.end()

    assert cluster.seen == [RUN]


def test_runs_without_exactly_once_are_left_alone(cleaner: TransactionCleanup, cluster: FakeCluster) -> None:
    cleaner.retire("another")
    cleaner.end()

    assert cluster.seen == []


def test_a_run_of_a_stopped_session_is_cleaned_without_a_notification(
    cleaner: TransactionCleanup, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "WATCH_S", 0.01)
    other = SinkRun.of(OPTIONS, sink="p", run="s")
    is_stopped = threading.Event()
    cleaner.add(RUN, is_over=is_stopped.is_set)
    cleaner.add(other, is_over=lambda: False)

    is_stopped.set()

    assert cluster.was_called.wait(60)
    assert cleaner.runs == {"s"}
    assert set(cluster.seen) == {RUN}


def test_a_run_is_watched_after_a_time_without_runs(
    cleaner: TransactionCleanup, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "WATCH_S", 0.01)
    for _ in range(2):
        cluster.was_called.clear()
        cleaner.add(RUN, is_over=lambda: True)
        assert cluster.was_called.wait(60)


def test_transactions_that_stay_open_are_a_warning_with_the_remedy(
    cleaner: TransactionCleanup, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.error = OSError("nobody there")
    cleaner.add(RUN)

    cleaner.retire("r")
    cleaner.end()

    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    for message in (
        "query q is over",
        "penstock-q-r-*",
        "nobody there",
        "started again",
        "finish_query",
    ):
        assert message in record.getMessage()


def test_an_unavailable_cluster_does_not_delay_the_end_of_a_program(
    cleaner: TransactionCleanup, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cleanup, "EXIT_S", 0.2)
    cleaner.add(RUN)
    cleaner.retire("r")

    cleaner.end()  # the real function, which would retry for minutes

    assert "the program ended before the cluster responded" in caplog.text
    cleaner.add(RUN)  # Spark may call even now
    cleaner.retire("r")


def test_the_prefix_comes_from_the_options() -> None:
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "transactionalIdPrefix": "ours"}

    run = SinkRun.of(Options.read(given, Use.STREAM_WRITE), sink="q", run="r")

    assert run.transactions == "ours-q-r-*"
