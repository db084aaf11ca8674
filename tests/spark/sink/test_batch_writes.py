"""Exactly-once batch writes on a real broker, without Spark: the driver dies while it commits."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StringType, StructField, StructType

import penstock.spark
from penstock.client.prepared_transaction import PreparedTransaction
from penstock.spark.options import Options, Use
from penstock.spark.sink import foreach_batch, writer
from penstock.spark.sink.decision import SinkStopped
from penstock.spark.sink.foreach_batch import StreamBatch
from penstock.spark.sink.transactions import SinkAdmin
from penstock.spark.sink.writer import TransactionalBatchWriter, batch_writer
from penstock.testing.broker import Broker

TWO_PHASE = {"transaction.two.phase.commit.enable": "true"}
SCHEMA = StructType([StructField("value", StringType())])
TASKS = 3
ROWS = 5


class DriverDied(Exception):
    pass


@dataclass
class Task:
    """A fake of Spark's `TaskContext`."""

    number: int

    def partitionId(self) -> int:
        return self.number

    def attemptNumber(self) -> int:
        return 0


def options_of(broker: Broker, write_id: str | None = None) -> dict[str, str]:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "out", "guarantee": "exactly-once"}
    return given if write_id is None else given | {"writeId": write_id}


def job(broker: Broker, write_id: str | None = None) -> TransactionalBatchWriter:
    made = batch_writer(Options.read(options_of(broker, write_id), Use.BATCH_WRITE), SCHEMA, False)
    assert isinstance(made, TransactionalBatchWriter)
    return made


def write(job: DataSourceArrowWriter, monkeypatch: pytest.MonkeyPatch, *, rows: int = ROWS) -> list[Any]:
    messages: list[WriterCommitMessage] = []
    for task in range(TASKS):
        monkeypatch.setattr(writer, "_context", lambda number=task: Task(number))
        values = pa.array([f"{task}/{row}" for row in range(rows)])
        messages.append(job.write(iter([pa.RecordBatch.from_arrays([values], ["value"])])))
    return messages


def die_after(commits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver dies after so many EndTxn responses."""
    original = SinkAdmin._complete
    done = 0

    async def complete(self: SinkAdmin, transaction: PreparedTransaction, *, commit: bool) -> bool:
        nonlocal done
        if done == commits:
            raise DriverDied
        done += 1
        return await original(self, transaction, commit=commit)

    monkeypatch.setattr(SinkAdmin, "_complete", complete)


def committed(broker: Broker) -> Counter[bytes]:
    with broker.consumer("out", isolation_level="read_committed") as consumer:
        return Counter(message.value for message in consumer.read(until="end").to_messages())


WHOLE = Counter(f"{task}/{row}".encode() for task in range(TASKS) for row in range(ROWS))


@pytest.fixture
def out(penstock: Broker) -> Broker:
    penstock.admin().create_topic("out", partitions=1)
    return penstock


@pytest.mark.penstock(settings=TWO_PHASE)
@pytest.mark.parametrize("commits", range(TASKS))
def test_a_rerun_finishes_a_write_whose_driver_died_between_two_end_txn(
    out: Broker, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    """It left a part of the write forever: there was no decision, and a rerun had another id."""
    first = job(out, "load-1")
    reported = write(first, monkeypatch)
    with monkeypatch.context() as patched:
        die_after(commits, patched)
        with pytest.raises(DriverDied):
            first.commit(reported)

    rerun = job(out, "load-1")
    rerun.commit(write(rerun, monkeypatch))

    assert committed(out) == WHOLE
    assert not out.admin().list_transactions(states=["Ongoing"])


@pytest.mark.penstock(settings=TWO_PHASE)
def test_a_driver_that_dies_before_its_decision_leaves_nothing_and_the_rerun_writes(
    out: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(job(out, "load-1"), monkeypatch)

    rerun = job(out, "load-1")
    rerun.commit(write(rerun, monkeypatch))

    assert committed(out) == WHOLE
    assert not out.admin().list_transactions(states=["Ongoing"])


@pytest.mark.penstock(settings=TWO_PHASE)
@pytest.mark.parametrize("commits", [0, 1])
def test_a_rerun_that_finished_a_write_does_not_claim_that_it_was_already_committed(
    out: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, commits: int
) -> None:
    first = job(out, "load-1")
    reported = write(first, monkeypatch)
    with monkeypatch.context() as patched:
        die_after(commits, patched)
        with pytest.raises(DriverDied):
            first.commit(reported)

    rerun = job(out, "load-1")
    rerun.commit(write(rerun, monkeypatch))
    assert "left batch write 'load-1' unfinished; this job committed the rest" in caplog.text
    assert "committed before" not in caplog.text

    third = job(out, "load-1")
    third.commit(write(third, monkeypatch))
    assert "batch write 'load-1' was already committed; nothing was written" in caplog.text


def test_a_rejected_job_with_other_rows_does_not_claim_that_its_rows_are_committed(
    out: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first = job(out, "load-1")
    first.commit(write(first, monkeypatch))
    other = job(out, "load-1")
    reported = write(other, monkeypatch, rows=ROWS + 1)
    with pytest.raises(SinkStopped, match="was already committed"):
        other.commit(reported)

    other.abort(reported)

    assert committed(out) == WHOLE
    assert "its rows are committed" not in caplog.text
    assert "another job committed this write, with 15 rows" in caplog.text


def test_a_rerun_of_a_committed_write_writes_nothing_and_rejects_other_rows(
    out: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        same = job(out, "load-1")
        same.commit(write(same, monkeypatch))
    other = job(out, "load-1")
    with pytest.raises(SinkStopped, match="was already committed, with 15 rows; this job has 18 rows"):
        other.commit(write(other, monkeypatch, rows=ROWS + 1))

    assert committed(out) == WHOLE


@pytest.mark.parametrize("write_id", ["load-1", None])
def test_an_operator_finishes_a_decided_write(
    out: Broker, monkeypatch: pytest.MonkeyPatch, write_id: str | None
) -> None:
    first = job(out, write_id)
    reported = write(first, monkeypatch)
    with monkeypatch.context() as patched:
        die_after(1, patched)
        with pytest.raises(DriverDied):
            first.commit(reported)
    (opened,) = {
        each.transactional_id.removeprefix("penstock-write:").rsplit("-", 2)[0]
        for each in out.admin().list_transactions(states=["Ongoing"])
    }

    for _ in range(2):
        assert penstock.spark.finish_write(options_of(out), opened) is True

    assert committed(out) == WHOLE
    assert not out.admin().list_transactions(states=["Ongoing"])


def test_an_operator_aborts_an_undecided_write(out: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    write(job(out, "load-1"), monkeypatch)

    assert penstock.spark.finish_write(options_of(out), "load-1") is False

    assert not committed(out)
    assert not out.admin().list_transactions(states=["Ongoing"])


def test_an_id_that_was_never_used_is_unknown(out: Broker) -> None:
    with pytest.raises(SinkStopped, match="'load-2' is unknown"):
        penstock.spark.finish_write(options_of(out), "load-2")
    with pytest.raises(SinkStopped, match="query 5c6fe1d6 is unknown"):
        penstock.spark.finish_query(options_of(out), "5c6fe1d6")


@pytest.mark.parametrize("is_decided", [False, True])
def test_an_operator_finishes_an_abandoned_query(
    out: Broker, monkeypatch: pytest.MonkeyPatch, is_decided: bool
) -> None:
    """The guide said to abort its transactions one by one, which leaves a part of a decided batch."""
    batch = StreamBatch("query", "run", 7)
    given = options_of(out) | {foreach_batch.OPTION: batch.pack()}
    micro_batch = batch_writer(Options.read(given, Use.BATCH_WRITE), SCHEMA, False)
    assert isinstance(micro_batch, DataSourceArrowWriter)
    reported = write(micro_batch, monkeypatch)
    if is_decided:
        with monkeypatch.context() as patched:
            die_after(1, patched)
            with pytest.raises(DriverDied):
                micro_batch.commit(reported)

    assert penstock.spark.finish_query(options_of(out), "query") == (7 if is_decided else None)

    assert committed(out) == (WHOLE if is_decided else Counter())
    assert not out.admin().list_transactions(states=["Ongoing"])


def test_a_job_whose_commit_failed_after_the_decision_is_committed_by_its_abort(
    out: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first = job(out)
    reported = write(first, monkeypatch)
    with monkeypatch.context() as patched:
        die_after(1, patched)
        with pytest.raises(DriverDied):
            first.commit(reported)

    first.abort(reported)

    assert committed(out) == WHOLE
    assert "failed, but its rows are committed" in caplog.text


@pytest.mark.penstock(settings=TWO_PHASE)
@pytest.mark.parametrize("has_rival", [False, True])
def test_a_task_that_starts_after_its_job_was_aborted_leaves_no_transaction_open(
    out: Broker, monkeypatch: pytest.MonkeyPatch, has_rival: bool
) -> None:
    rival = job(out, "daily")
    reported = write(rival, monkeypatch) if has_rival else []
    aborted = job(out, "daily")
    aborted.abort([])

    with pytest.raises(SinkStopped, match="'daily' failed or was cancelled"):
        write(aborted, monkeypatch)

    if has_rival:  # it still holds the sink
        rival.commit(reported)
    assert not out.admin().list_transactions(states=["Ongoing"])
    assert committed(out) == (WHOLE if has_rival else Counter())
