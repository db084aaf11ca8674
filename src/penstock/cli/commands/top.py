"""`penstock top`: a cluster at work."""

from __future__ import annotations

import sys
from typing import Annotated

from penstock.cli.connection import Connection
from penstock.cli.declare import Command, Option
from penstock.cli.output import Output


def top(
    *,
    connection: Connection,
    output: Output,
    interval: Annotated[
        float, Option("--interval", "-i", help="Seconds between two looks.", minimum=0.1)
    ] = 1.0,
    internal: Annotated[bool, Option("--internal", help="Show internal topics too.")] = False,
    once: Annotated[
        bool, Option("--once", help="Look for one interval, print what was seen, and end.")
    ] = False,
) -> None:
    """Watch throughput, lag, brokers and partitions live.

    `q` quits, `s` changes what topics are sorted by, the space bar pauses. In a pipe and with `--json` it looks once.
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
