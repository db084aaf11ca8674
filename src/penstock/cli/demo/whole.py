"""All of it together: orders come in, Spark counts them in windows, and the result is read back and checked.

When the time is up no more orders are made, the pipeline is let finish what is there, and what it wrote is compared to
the generator's books: the number of orders and the sum of money have to be the same on both ends.
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
from penstock.cli.demo.results import Follower
from penstock.cli.demo.revenue import REVENUE_TOPIC, revenue
from penstock.cli.demo.screen import Screen, View, tell_summary
from penstock.cli.pipeline_run import Ending
from penstock.spark.pipelines.loading import Program
from penstock.spark.pipelines.running import Run
from penstock.spark.sessions import session
from penstock.spark.settings import SHORT_LIVED_JAVA

PARTITIONS = 3
LOOK_SECONDS = 0.25
DRAIN_SECONDS = 120.0  # for what is left when the time is up, also on a machine that is busy
COMPACTED = {"cleanup.policy": "compact"}
TOPICS = (
    NewTopic(name=ORDERS_TOPIC, partitions=PARTITIONS),
    NewTopic(name=CUSTOMERS_TOPIC, partitions=PARTITIONS, config=COMPACTED),
    NewTopic(name=REVENUE_TOPIC, partitions=PARTITIONS, config=COMPACTED),
)


def show_whole(console: Console, port: int, folder: str, seconds: float | None) -> int:
    """Show it until the time is up or Ctrl-C; the exit status."""
    servers = f"127.0.0.1:{port}"
    view = View(port=port, seconds=seconds)
    with Admin(servers) as admin:
        admin.create_topics(TOPICS)
    with Ending() as ending, Orders(servers) as orders, Follower(servers) as follower:
        view.results = follower.results
        with Screen(console, view) as screen:
            run = _start(servers, folder, view, orders, screen, ending)
            if run is None:
                return 0
            with _ended(run):
                _look(view, run, orders, follower, screen, ending)
                view.phase = "finishing what is there"
                orders.finish()
                _drain(view, run, orders, follower, screen)
                run.stop()
        view.phase = "done"
        return 0 if tell_summary(console, view, generated=orders.count, cents=orders.cents) else 1


def _start(
    servers: str, folder: str, view: View, orders: Orders, screen: Screen, ending: Ending
) -> Run | None:
    """The pipeline, running; orders are shown coming in meanwhile. None if somebody ends it before."""
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
        if ending.wait(LOOK_SECONDS):
            return None
    if isinstance(made[0], BaseException):
        raise made[0]
    return made[0]


def _look(view: View, run: Run, orders: Orders, follower: Follower, screen: Screen, ending: Ending) -> None:
    view.phase = "live"
    while view.seconds is None or view.elapsed < view.seconds:
        _take_in(view, run, follower)
        _draw(view, orders, screen)
        orders.check()
        if ending.wait(LOOK_SECONDS):
            return


def _drain(view: View, run: Run, orders: Orders, follower: Follower, screen: Screen) -> None:
    """Until the pipeline has read all and its last batch is committed."""
    deadline = time.monotonic() + DRAIN_SECONDS
    while time.monotonic() < deadline:
        _take_in(view, run, follower)
        _draw(view, orders, screen)
        if run.figures[0].rows_in >= orders.count and follower.results.orders >= orders.count:
            return
        time.sleep(LOOK_SECONDS)


def _take_in(view: View, run: Run, follower: Follower) -> None:
    run.look()
    view.figures = run.figures[0]
    if view.figures.batch >= 0:
        follower.catch_up()


def _draw(view: View, orders: Orders, screen: Screen) -> None:
    view.generated = orders.count
    screen.draw()


@contextmanager
def _ended(run: Run) -> Iterator[None]:
    """Spark goes when this is over, however it ends."""
    try:
        yield
    finally:
        run.stop(batch_seconds=0.0)
        run.spark.stop()
