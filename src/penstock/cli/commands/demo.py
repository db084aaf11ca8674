"""`penstock demo`: what can be said to it. What it does is in `cli.demo`."""

from __future__ import annotations

from typing import Annotated

from penstock.cli.declare import Command, Option


def demo(
    *,
    seconds: Annotated[
        float | None, Option("--seconds", help="End by itself after so long.", minimum=0)
    ] = None,
    port: Annotated[
        int | None,
        Option("--port", help="Where the broker serves; by default 9092 or any free port.", minimum=1),
    ] = None,
    broker_alone: Annotated[
        bool, Option("--broker-alone", help="Without Spark: records written and read, and no pipeline.")
    ] = False,
) -> int:
    """Show the whole before your eyes: a broker, orders coming in, and a Spark pipeline that counts them exactly once.

    It goes on until Ctrl-C, and then, or when its time is up, tells what went in and what came out. Where there is no
    Java for Spark it shows the broker alone, and says what is missing.
    """
    from penstock.cli.demo import demo

    return demo(seconds=seconds, port=port, is_broker_alone=broker_alone)


command = Command(demo, examples=["penstock demo", "penstock demo --seconds 60"])
