"""`penstock demo`: a broker, events that come in live, and a Spark pipeline over them, before your eyes.

broker.py         the broker, a process of its own
orders.py         the events: orders with keys and headers, and the table of customers
revenue.py        the pipeline, as anyone would write it
results.py        what the pipeline wrote, read as any consumer reads it
whole.py          all of it together, and whether what came out agrees with what went in
screen.py         how it looks
broker_alone.py   the same without Spark, where there is no Java
"""

from __future__ import annotations

import signal
import tempfile

from penstock.cli.demo.broker import ENDING, BrokerProcess, choose_port
from penstock.runtime.signals import signals_to_handle


def demo(*, seconds: float | None, port: int | None, is_broker_alone: bool) -> int:
    """Run the demonstration; the exit status."""
    from rich.console import Console

    from penstock.client.connection import Disconnected

    console = Console()
    lack = None if is_broker_alone else _lack_of_spark()
    if lack is not None:
        console.print(f"[yellow]{lack}[/]\nThe broker is shown alone, without a pipeline.", soft_wrap=True)
    for number in signals_to_handle(*ENDING):  # all as Ctrl-C: the broker must not outlive this program
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
        try:
            with BrokerProcess(choose_port(port), f"{folder}/log") as broker:
                console.print(
                    f"[bold]{broker.ready_line}[/]  [dim](started in {broker.started_s * 1000:.0f} ms)[/]",
                    soft_wrap=True,
                )
                if is_broker_alone or lack is not None:
                    from penstock.cli.demo.broker_alone import show_broker
                    from penstock.runtime.loop import run

                    return run(show_broker(console, broker.port, seconds))
                from penstock.cli.demo.whole import show_whole

                return show_whole(console, broker.port, folder, seconds)
        except (RuntimeError, Disconnected) as error:
            console.print(f"[red]{error}[/]")
            return 1
        except KeyboardInterrupt:
            console.print("\nstopped; the demonstration's data is removed")
            return 0


def _lack_of_spark() -> str | None:
    """What a pipeline would need and does not find here."""
    from importlib.util import find_spec

    from penstock.spark.java import JavaMissing, find_java

    if find_spec("pyspark") is None:
        return "Pipelines need PySpark: pip install 'penstock[spark]'."
    try:
        find_java()
    except JavaMissing as missing:
        return f"{missing}."
    return None
