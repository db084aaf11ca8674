"""Queries that end in the middle of a batch: read_committed consumers continue, and a restart writes the rest once."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

import penstock.spark
from harness.brokers import penstock_environment
from penstock import Admin
from penstock.spark.internals import is_between_batches, stream_execution
from penstock.spark.settings import SHORT_LIVED_JAVA
from penstock.spark.sink.cleanup import CLEANUP
from penstock.testing.broker import Broker

pytestmark = pytest.mark.penstock(settings={"transaction.two.phase.commit.enable": "true"})

ROWS = 20
PADDING = "." * 100_000  # more than Spark buffers before it passes a row from one process to the next
PATIENCE_S = 30.0
PROGRAM_ENDS_S = 200.0

LEAVING = Path(__file__).parent / "programs" / "leaving.py"


@pytest.fixture
def by_rows(spark: SparkSession) -> SparkSession:
    """A session whose tasks write row by row, so that some rows are written before the task has all of them."""
    session = spark.newSession()
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1")
    return penstock.spark.register(session)


def fill(broker: Broker) -> None:
    with broker.admin() as admin:
        admin.create_topic("in", partitions=2)
        admin.create_topic("out", partitions=1)
    with broker.producer() as producer:
        for number in range(ROWS):
            producer.send("in", f"{number} {PADDING}", partition=number % 2)


def rows(spark: SparkSession, broker: Broker) -> DataFrame:
    given = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "subscribe": "in",
        "includeHeaders": "false",
    }
    stream = spark.readStream.format("penstock").options(startingOffsets="earliest", **given).load()
    return stream.select("partition", "value")


def held_up(servers: str, *, fails: bool) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """One task passes on its rows and does not end; the other waits until they are being written, and then fails if
    requested."""

    def hold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows and batch["partition"][0].as_py() == 0:
                yield from (batch.select(["value"]).slice(row, 1) for row in range(batch.num_rows))
        deadline_s = time.monotonic() + PATIENCE_S
        with Admin(servers) as admin:
            while time.monotonic() < deadline_s:
                if (
                    fails
                    and batch["partition"][0].as_py() == 1
                    and admin.list_transactions(states=["Ongoing"])
                ):
                    raise ValueError("a bad day")
                time.sleep(0.05)

    return hold


def written(frame: DataFrame, broker: Broker, checkpoint: Path, *, each_batch: bool) -> DataStreamWriter:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "out"}
    writer = frame.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    if each_batch:
        return writer.foreachBatch(penstock.spark.to_topics(given))
    return writer.format("penstock").options(**given)


def open_ids(broker: Broker) -> list[str]:
    with broker.admin() as admin:
        return [each.transactional_id for each in admin.list_transactions(states=["Ongoing"])]


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.05)


def committed(broker: Broker) -> Counter[str]:
    with broker.consumer("out", isolation_level="read_committed") as consumer:
        return Counter(
            message.value.decode().split()[0] for message in consumer.read(until="end").to_messages()
        )


@pytest.mark.parametrize(
    ("fails", "each_batch"),
    [(True, False), (False, False), (False, True)],
    ids=["fails", "stops", "each batch"],
)
def test_a_query_that_ends_in_a_batch_leaves_nothing_open(
    by_rows: SparkSession, penstock: Broker, tmp_path: Path, fails: bool, each_batch: bool
) -> None:
    fill(penstock)
    hold = held_up(penstock.bootstrap_servers, fails=fails)
    frame = rows(by_rows, penstock).mapInArrow(hold, "value binary")
    query = written(frame, penstock, tmp_path / "checkpoint", each_batch=each_batch).start()

    if fails:
        with pytest.raises(StreamingQueryException, match="a bad day"):
            query.awaitTermination()
    else:
        wait_until(lambda: bool(open_ids(penstock)), "rows are being written")
        assert str(query.runId) in CLEANUP.runs
        assert not is_between_batches(stream_execution(by_rows, str(query.id)))
        query.stop()
    wait_until(lambda: not open_ids(penstock), "what is open is ended without a restart")

    with penstock.producer() as producer:
        producer.send("out", "behind")
    wait_until(lambda: committed(penstock) == {"behind": 1}, "readers come to what stands behind")
    whole = rows(by_rows, penstock).select("value")
    query = written(whole, penstock, tmp_path / "checkpoint", each_batch=each_batch).start()
    in_jvm = stream_execution(by_rows, str(query.id))
    query.awaitTermination()
    assert is_between_batches(in_jvm)
    assert committed(penstock) == Counter(map(str, range(ROWS))) | Counter(behind=1)
    assert not open_ids(penstock)


def test_sessions_that_end_in_a_batch_leave_nothing_open(penstock: Broker, tmp_path: Path) -> None:
    fill(penstock)

    ended = subprocess.run(
        [sys.executable, str(LEAVING), penstock.bootstrap_servers, str(tmp_path)],
        env={**penstock_environment(), "JAVA_TOOL_OPTIONS": SHORT_LIVED_JAVA},
        capture_output=True,
        text=True,
        timeout=PROGRAM_ENDS_S,
    )

    reported = "stopped in mid batch\ntwo in mid batch\n"
    assert (ended.returncode, ended.stdout) == (0, reported), ended.stderr
    assert not open_ids(penstock), ended.stderr
    assert not committed(penstock)
