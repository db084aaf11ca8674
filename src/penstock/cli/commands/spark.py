"""`penstock spark`: a Spark cluster on this machine. What it does is in `spark.cluster`."""

from __future__ import annotations

from typing import Annotated

from penstock.cli.declare import Group, Option
from penstock.cli.output import Output

command = Group(help="Run a Spark cluster for pipelines.")


@command.command(
    "cluster",
    examples=[
        "penstock spark cluster",
        "penstock spark cluster --workers 4 --cores 2 --memory 2g",
        "penstock spark cluster --connect",
    ],
)
def cluster(
    *,
    output: Output,
    workers: Annotated[int, Option("--workers", "-w", help="How many workers.", minimum=1)] = 2,
    cores: Annotated[
        int | None,
        Option("--cores", help="Of each worker; by default the machine's are shared out.", minimum=1),
    ] = None,
    memory: Annotated[
        str, Option("--memory", metavar="SIZE", help="Of each worker, such as 512m or 4g.")
    ] = "1g",
    host: Annotated[
        str,
        Option("--host", help="The address that all of it listens on; others reach it only by a real one."),
    ] = "127.0.0.1",
    port: Annotated[
        int | None, Option("--port", help="Of the master; by default 7077 or any free one.", minimum=1)
    ] = None,
    connect: Annotated[bool, Option("--connect", help="Serve Spark Connect, too.")] = False,
    connect_port: Annotated[
        int | None,
        Option("--connect-port", help="Of Spark Connect; by default 15002 or any free one.", minimum=1),
    ] = None,
) -> int:
    """Start a standalone Spark cluster, and keep it until SIGTERM or Ctrl-C.

    When it serves, it prints a line that begins with `penstock spark ready` and names the address that `penstock
    pipeline run --spark` takes. It is Spark's own, from the installed PySpark; nothing is fetched.
    """
    from penstock.cli.spark_cluster import run_cluster

    return run_cluster(
        output,
        workers=workers,
        cores=cores,
        memory=memory,
        host=host,
        port=port,
        connect=connect or connect_port is not None,
        connect_port=connect_port,
    )
