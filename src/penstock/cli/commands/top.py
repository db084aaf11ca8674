"""`penstock top`: live figures of a cluster."""

from __future__ import annotations

import sys
from typing import Annotated

from penstock.cli.connection import Connection
from penstock.cli.declare import Command, option
from penstock.cli.output import Output


def top(
    *,
    connection: Connection,
    output: Output,
    interval: Annotated[
        float, option("--interval", "-i", help="Seconds between updates.", minimum=0.1)
    ] = 1.0,
    internal: Annotated[bool, option("--internal", help="Include internal topics.")] = False,
    once: Annotated[
        bool, option("--once", help="Measure one interval, print the figures, and exit.")
    ] = False,
) -> None:
    """Show throughput, lag, brokers and partitions live.

    `q` quits, `s` changes the sort order of topics, the space bar pauses. In a pipe and with `--json` it measures
    once.
    """
    from penstock.cli.top.live import run

    is_once = once or output.as_json or not sys.stdout.isatty()
    run(
        connection.settings(),
        interval_seconds=interval,
        shows_internal=internal,
        is_once=is_once,
        output=output,
    )


command = Command(
    top, examples=["penstock top", "penstock top -b broker:9092 --interval 5", "penstock top --json"]
)
