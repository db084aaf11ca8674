"""`penstock pipeline`: run programs on Spark, and see and stop those that run. What it does is in `cli.pipeline_run`
and `cli.pipelines`."""

from __future__ import annotations

from typing import Annotated

from penstock.cli.declare import Argument, Group, Option
from penstock.cli.output import Output

command = Group(help="Run pipelines on Spark, and see and stop those that run.")


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
        str, Argument(help="A Python file that defines `app` or `pipeline(spark)`.", complete="file")
    ],
    *,
    output: Output,
    spark: Annotated[
        str | None,
        Option(
            "--spark",
            metavar="MASTER",
            help="Where Spark runs: local[*], spark://host:7077 or sc://host:15002.",
            env="PENSTOCK_SPARK",
        ),
    ] = None,
    brokers: Annotated[
        str | None,
        Option(
            "--brokers",
            "-b",
            aliases=("--bootstrap-server",),
            metavar="HOST:PORT,...",
            help="Given to the program as PENSTOCK_BOOTSTRAP_SERVERS.",
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        Option(
            "--checkpoint",
            metavar="DIR",
            help="Where queries keep how far they are, on any file system that Spark reads; by name otherwise.",
        ),
    ] = None,
    name: Annotated[str | None, Option("--name", help="By default that of the app, or of the file.")] = None,
    once: Annotated[bool, Option("--once", help="Take what is there now, and end.")] = False,
    settings: Annotated[
        tuple[str, ...],
        Option("--set", "-s", metavar="KEY=VALUE", help="A setting of Spark. May be repeated."),
    ] = (),
) -> int:
    """Run a pipeline until it ends, or until Ctrl-C or SIGTERM, which let it finish the batch at hand.

    Started again, it continues from its checkpoint. `pipeline(spark)` returns a query, or what is not yet started
    (`df.writeStream...`, which is then given a name and a checkpoint), or a list or a dict of them.
    """
    from penstock.cli.asking import read_pairs
    from penstock.cli.pipeline_run import run_pipeline

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
    """Tell which pipelines run on this machine."""
    from penstock.cli.pipelines import list_pipelines

    list_pipelines(output)


@command.command("status", examples=["penstock pipeline status", "penstock pipeline status orders --json"])
def status(
    names: Annotated[
        tuple[str, ...], Argument(metavar="[NAME...]", help="Names of pipelines; all otherwise.")
    ] = (),
    *,
    output: Output,
) -> None:
    """Tell what the queries of pipelines do: rates, lag, and the size of their state."""
    from penstock.cli.pipelines import show_status

    show_status(names, output)


@command.command("stop", examples=["penstock pipeline stop orders"])
def stop(
    names: Annotated[list[str], Argument(metavar="NAME...", help="Names of pipelines.")],
    *,
    output: Output,
    timeout: Annotated[
        float, Option("--timeout", help="How many seconds to wait for it to end.", minimum=0)
    ] = 120.0,
) -> None:
    """Have pipelines end after the batch at hand, and wait until they have."""
    from penstock.cli.pipelines import stop_pipelines

    stop_pipelines(tuple(names), timeout=timeout, output=output)
