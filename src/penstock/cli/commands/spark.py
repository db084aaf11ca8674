"""`penstock spark`: a Spark cluster on this machine. `spark.cluster` does the work."""

from __future__ import annotations

from typing import Annotated

from penstock.cli.declare import Group, option
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
    workers: Annotated[int, option("--workers", "-w", help="Number of workers.", minimum=1)] = 2,
    cores: Annotated[
        int | None,
        option(
            "--cores", help="Cores of each worker; by default the machine's cores are divided.", minimum=1
        ),
    ] = None,
    memory: Annotated[
        str, option("--memory", metavar="SIZE", help="Memory of each worker, such as 512m or 4g.")
    ] = "1g",
    host: Annotated[
        str,
        option("--host", help="The address to listen on; other machines cannot reach 127.0.0.1."),
    ] = "127.0.0.1",
    port: Annotated[
        int | None, option("--port", help="Port of the master; by default 7077, or a free one.", minimum=1)
    ] = None,
    connect: Annotated[bool, option("--connect", help="Also start Spark Connect.")] = False,
    connect_port: Annotated[
        int | None,
        option("--connect-port", help="Port of Spark Connect; by default 15002, or a free one.", minimum=1),
    ] = None,
) -> int:
    """Run a standalone Spark cluster until SIGTERM or Ctrl-C.

    When it is ready it prints a line that begins with `penstock spark ready` and contains the address for `penstock
    pipeline run --spark`. It uses the installed PySpark and downloads nothing.
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
