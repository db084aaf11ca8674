"""`penstock pipeline`: run, list and stop pipelines on Spark. `cli.pipeline_run` and `cli.pipelines` do the work."""

from __future__ import annotations

from typing import Annotated

from penstock.cli.declare import Group, argument, option
from penstock.cli.output import Output

command = Group(help="Run, list and stop pipelines on Spark.")


@command.command(
    "run",
    examples=[
        "penstock pipeline run orders.py",
        "penstock pipeline run orders.py --brokers localhost:9092 --spark spark://127.0.0.1:7077",
        "penstock pipeline run orders.py --once --json",
    ],
)
def run(
    file: Annotated[
        str, argument(help="A Python file that defines `app` or `pipeline(spark)`.", complete="file")
    ],
    *,
    output: Output,
    spark: Annotated[
        str | None,
        option(
            "--spark",
            metavar="MASTER",
            help="Where Spark runs: local[*], spark://host:7077 or sc://host:15002. By default $PENSTOCK_SPARK.",
            env="PENSTOCK_SPARK",
        ),
    ] = None,
    brokers: Annotated[
        str | None,
        option(
            "--brokers",
            "-b",
            aliases=("--bootstrap-server",),
            metavar="HOST:PORT,...",
            help="Brokers; the program gets them as PENSTOCK_BOOTSTRAP_SERVERS.",
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        option(
            "--checkpoint",
            metavar="DIR",
            help="Checkpoint directory, on any file system that Spark can write; by default chosen by name.",
        ),
    ] = None,
    name: Annotated[
        str | None, option("--name", help="Name of the pipeline, by default that of the app or the file.")
    ] = None,
    once: Annotated[bool, option("--once", help="Process the available records, and exit.")] = False,
    settings: Annotated[
        tuple[str, ...],
        option("--set", "-s", metavar="KEY=VALUE", help="A Spark setting. May be repeated."),
    ] = (),
) -> int:
    """Run a pipeline until it ends. On Ctrl-C or SIGTERM it finishes the current batch and stops.

    After a restart it continues from its checkpoint. `pipeline(spark)` returns a query, or a `df.writeStream...`
    that is not started yet (it gets a name and a checkpoint), or a list or dict of them.
    """
    from penstock.cli.pipeline_run import run_pipeline
    from penstock.cli.values import read_pairs

    return run_pipeline(
        file,
        name=name,
        master=spark,
        brokers=brokers,
        checkpoint=checkpoint,
        settings=read_pairs(settings, option="--set", example="spark.driver.memory=4g"),
        is_once=once,
        output=output,
    )


@command.command("list", examples=["penstock pipeline list", "penstock pipeline list --json"])
def list_pipelines(*, output: Output) -> None:
    """List the pipelines that run on this machine."""
    from penstock.cli.pipelines import list_pipelines

    list_pipelines(output)


@command.command("status", examples=["penstock pipeline status", "penstock pipeline status orders --json"])
def status(
    names: Annotated[
        tuple[str, ...], argument(metavar="[NAME...]", help="Names of pipelines, by default all.")
    ] = (),
    *,
    output: Output,
) -> None:
    """Show rates, lag and state size of the queries of pipelines."""
    from penstock.cli.pipelines import show_status

    show_status(names, output)


@command.command("stop", examples=["penstock pipeline stop orders"])
def stop(
    names: Annotated[list[str], argument(metavar="NAME...", help="Names of pipelines.")],
    *,
    output: Output,
    timeout: Annotated[
        float, option("--timeout", help="How many seconds to wait for it to stop.", minimum=0)
    ] = 120.0,
) -> None:
    """Stop pipelines after their current batch, and wait for them."""
    from penstock.cli.pipelines import stop_pipelines

    stop_pipelines(tuple(names), timeout=timeout, output=output)
