"""The demo with Spark: orders come in, the pipeline counts them in windows, and the result is checked.

At the end no more orders are produced, and the pipeline processes the rest. Then the number of orders and the sum of
money must be the same in input and output.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from penstock import Admin
from penstock.admin import NewTopic
from penstock.cli.demo.orders import CUSTOMERS_TOPIC, ORDERS_TOPIC, Orders
from penstock.cli.demo.results import ResultsReader
from penstock.cli.demo.revenue import REVENUE_TOPIC, revenue
from penstock.cli.demo.screen import Screen, View, print_summary
from penstock.cli.pipeline_run import StopSignals
from penstock.spark.pipelines.loading import Program
from penstock.spark.pipelines.running import Run
from penstock.spark.sessions import session
from penstock.spark.settings import SHORT_LIVED_JAVA

PARTITIONS = 3
POLL_SECONDS = 0.25
DRAIN_SECONDS = 120.0  # for the rest at the end, also on a busy machine
COMPACTED = {"cleanup.policy": "compact"}
TOPICS = (
    NewTopic(name=ORDERS_TOPIC, partitions=PARTITIONS),
    NewTopic(name=CUSTOMERS_TOPIC, partitions=PARTITIONS, config=COMPACTED),
    NewTopic(name=REVENUE_TOPIC, partitions=PARTITIONS, config=COMPACTED),
)


def run_pipeline_demo(console: Console, servers: str, folder: str, seconds: float | None) -> int:
    """Run until the time is over, or Ctrl-C. Returns the exit status."""
    view = View(servers=servers, seconds=seconds)
    with Admin(servers) as admin:
        admin.create_topics(TOPICS)
    with StopSignals() as ending, Orders(servers) as orders, ResultsReader(servers) as reader:
        view.results = reader.results
        with Screen(console, view) as screen:
            run = _start(servers, folder, view, orders, screen, ending)
            if run is None:
                return 0
            with _stopping(run):
                _watch(view, run, orders, reader, screen, ending)
                view.phase = "finishing"
                orders.finish()
                _drain(view, run, orders, reader, screen)
                run.stop()
        view.phase = "done"
        return 0 if print_summary(console, view, generated=orders.count, cents=orders.cents) else 1


def _start(
    servers: str, folder: str, view: View, orders: Orders, screen: Screen, ending: StopSignals
) -> Run | None:
    """Start the pipeline while the screen shows incoming orders. None if the user stops it before."""
    made: list[Run | BaseException] = []

    def make() -> None:
        try:
            java = {"spark.driver.extraJavaOptions": SHORT_LIVED_JAVA}
            spark = session("penstock-demo", settings=java, log=f"{folder}/spark.log")
            program = Program("revenue", app=None, pipeline=lambda spark: revenue(spark, servers))
            run = Run(program, spark, name="revenue", checkpoint=f"{folder}/checkpoints")
            view.phase = "starting the pipeline"
            run.start()
            made.append(run)
        except BaseException as error:
            made.append(error)

    thread = threading.Thread(target=make, name="spark", daemon=True)
    thread.start()
    while thread.is_alive():
        _draw(view, orders, screen)
        if ending.wait(POLL_SECONDS):
            return None
    if isinstance(made[0], BaseException):
        raise made[0]
    return made[0]


def _watch(
    view: View, run: Run, orders: Orders, reader: ResultsReader, screen: Screen, ending: StopSignals
) -> None:
    view.phase = "live"
    while view.seconds is None or view.elapsed < view.seconds:
        _update(view, run, reader)
        _draw(view, orders, screen)
        orders.check()
        if ending.wait(POLL_SECONDS):
            return


def _drain(view: View, run: Run, orders: Orders, reader: ResultsReader, screen: Screen) -> None:
    """Wait until the pipeline has read all orders and its last batch is committed."""
    deadline = time.monotonic() + DRAIN_SECONDS
    while time.monotonic() < deadline:
        _update(view, run, reader)
        _draw(view, orders, screen)
        if run.figures[0].rows_in >= orders.count and reader.results.orders >= orders.count:
            return
        time.sleep(POLL_SECONDS)


def _update(view: View, run: Run, reader: ResultsReader) -> None:
    run.poll()
    view.figures = run.figures[0]
    if view.figures.batch >= 0:
        reader.catch_up()


def _draw(view: View, orders: Orders, screen: Screen) -> None:
    view.generated = orders.count
    screen.draw()


@contextmanager
def _stopping(run: Run) -> Iterator[None]:
    """Stop Spark at the end of the block."""
    try:
        yield
    finally:
        run.stop(batch_seconds=0.0)
        run.spark.stop()
