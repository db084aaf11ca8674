"""`penstock demo`: a broker, live events, and a Spark pipeline that processes them.

broker.py          the broker process
orders.py          the events: orders with keys and headers, and the table of customers
revenue.py         the pipeline
results.py         the output of the pipeline, read by a consumer
pipeline_demo.py   runs all of them, and compares output and input
screen.py          the screen
broker_demo.py     a demo without Spark
"""

from __future__ import annotations

import signal
import tempfile

from penstock.cli.demo.broker import ENDING, BrokerProcess, choose_port
from penstock.runtime.signals import signals_to_handle


def demo(*, seconds: float | None, port: int | None, nodes: int, is_broker_alone: bool) -> int:
    """Run the demo. Returns the exit status."""
    from rich.console import Console

    from penstock.client.connection import Disconnected

    console = Console()
    missing = None if is_broker_alone else _missing_for_spark()
    if missing is not None:
        console.print(f"[yellow]{missing}[/]\nShowing only the broker, without a pipeline.", soft_wrap=True)
    has_pipeline = not is_broker_alone and missing is None
    for number in signals_to_handle(*ENDING):  # like Ctrl-C: the broker must not outlive this program
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
        try:
            # The demo without a pipeline speaks to one broker only.
            count = nodes if has_pipeline else 1
            with BrokerProcess(choose_port(port), f"{folder}/log", nodes=count) as broker:
                console.print(
                    f"[bold]{broker.ready_line}[/]  [dim](started in {broker.started_s * 1000:.0f} ms)[/]",
                    soft_wrap=True,
                )
                if not has_pipeline:
                    from penstock.cli.demo.broker_demo import run_broker_demo
                    from penstock.runtime.loop import run

                    return run(run_broker_demo(console, broker.port, seconds))
                from penstock.cli.demo.pipeline_demo import run_pipeline_demo

                return run_pipeline_demo(console, broker.servers, folder, seconds)
        except (RuntimeError, Disconnected) as error:
            console.print(f"[red]{error}[/]")
            return 1
        except KeyboardInterrupt:
            console.print("\nstopped; the data of the demo is deleted")
            return 0


def _missing_for_spark() -> str | None:
    """What is missing for a pipeline, as a sentence."""
    from importlib.util import find_spec

    from penstock.spark.java import JavaMissing, find_java

    if find_spec("pyspark") is None:
        return "Pipelines need PySpark: pip install 'penstock[spark]'."
    try:
        find_java()
    except JavaMissing as error:
        return f"{error}."
    return None
