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
) -> int:
    """Start a broker, write and read records before your eyes, and leave it serving until Ctrl-C."""
    from penstock.cli.demo import demo

    return demo(seconds=seconds, port=port)


command = Command(demo, examples=["penstock demo", "penstock demo --seconds 20"])
