"""A stop between batches, and an App that is run once: watched, stopped after the current batch, and counted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.spark.internals import finish_batch_and_end
from penstock.spark.pipelines.loading import Program
from penstock.spark.pipelines.running import Run, clusters_of_query
from penstock.spark.pipelines.stopping import stop_after_batches
from penstock.streams import App
from penstock.testing.broker import Broker

PATIENCE_SECONDS = 120.0
LINES = 60

pytestmark = pytest.mark.penstock(settings={"transaction.two.phase.commit.enable": "true"})


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_stop_lets_the_current_batch_finish_and_starts_no_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    begun, ended = [], []
    is_at_batch, is_told = threading.Event(), threading.Event()

    def work(rows: DataFrame, batch: int) -> None:
        begun.append(batch)
        if batch == 1:
            is_at_batch.set()
            assert is_told.wait(PATIENCE_SECONDS)
        ended.append(batch)

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    query = rows.writeStream.foreachBatch(work).option("checkpointLocation", str(tmp_path)).start()
    assert is_at_batch.wait(PATIENCE_SECONDS)
    assert clusters_of_query(spark, query) == []  # it reads from no broker

    stopping = threading.Thread(target=stop_after_batches, args=[[query]])
    stopping.start()
    wait_until(lambda: not query.isActive)
    assert stopping.is_alive()  # it waits for the batch
    is_told.set()
    stopping.join(PATIENCE_SECONDS)

    assert finish_batch_and_end(query) is not None
    assert query.exception() is None
    assert begun == ended == [0, 1]
    assert {file.name for file in (tmp_path / "commits").iterdir() if file.name.isdecimal()} == {"0", "1"}


def counting(broker: Broker, state: Path) -> Program:
    app = App(
        "counting",
        brokers=broker.bootstrap_servers,
        state_dir=str(state),
        buffered_records_per_partition=LINES // 3,
    )
    lines = app.stream("lines", key=str, value=str)
    lines.map_values(str.upper).to("shouts")
    return Program("counting", app, None)


def test_an_app_that_is_run_once_reports_progress_and_ends_after_the_current_batch(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    with penstock.admin() as admin:
        for topic in ("lines", "shouts"):
            admin.create_topic(topic, partitions=1)
    with penstock.producer() as producer:
        for number in range(LINES):
            producer.send("lines", f"line {number}", key="k")

    first = Run(counting(penstock, tmp_path), spark, name="counting", checkpoint=str(tmp_path), is_once=True)
    first.start()
    wait_until(lambda: not first.poll() or first.figures[0].batch >= 0)
    first.stop()

    (figures,) = first.figures
    assert (figures.rows_in, figures.rows_out) in [(n, n) for n in (LINES // 3, 2 * LINES // 3, LINES)]
    done = figures.rows_in

    second = Run(counting(penstock, tmp_path), spark, name="counting", checkpoint=str(tmp_path), is_once=True)
    second.start()
    wait_until(lambda: not second.poll())
    second.stop()

    (figures,) = second.figures
    assert figures.state == "done"
    assert (figures.rows_in, figures.rows_out or 0) == (LINES - done, LINES - done)
    with penstock.consumer("shouts", isolation_level="read_committed") as consumer:
        assert len(consumer.read(until="end").to_messages()) == LINES
