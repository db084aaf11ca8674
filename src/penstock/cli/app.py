"""The commands, their options and their help. See `main` for why `serve` rarely comes by here."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

import penstock
from penstock.cli.logs import LEVELS

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Penstock: an event streaming platform that speaks Kafka's protocol.",
    epilog="`penstock COMMAND --help` tells more of each.",
)


def run_app(arguments: Sequence[str]) -> int:
    """Run a command by way of typer; the exit status."""
    try:
        app(list(arguments), prog_name="penstock")
    except SystemExit as end:  # how typer ends, also when all went well
        return end.code if isinstance(end.code, int) else 0
    raise AssertionError("typer ends with SystemExit")


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        print(f"penstock {penstock.__version__}")
        raise typer.Exit


@app.callback()
def penstock_command(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def _check_level(level: str) -> str:
    if level not in LEVELS:
        raise typer.BadParameter(f"{level} is not one of {', '.join(LEVELS)}")
    return level


@app.command(name="serve")
def serve_command(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="server.properties",
            help="Settings in Kafka's own format and names.",
            show_default=False,
        ),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A setting that outranks the file. May be repeated.",
            show_default=False,
        ),
    ] = None,
    log_level: Annotated[
        str, typer.Option(metavar="|".join(LEVELS), help="How much to tell on stderr.", callback=_check_level)
    ] = "info",
) -> None:
    """Run a node until it is told to stop by SIGTERM or Ctrl-C.

    With nothing said it serves on 127.0.0.1:9092 and keeps its data in the user's state directory. When it
    serves, it prints a line that begins with `penstock ready`.

    **Examples**

    - `penstock serve`

    - `penstock serve server.properties`

    - `penstock serve --set listeners=PLAINTEXT://:9092 --set log.dirs=/var/lib/penstock`

    - `penstock serve server.properties --set node.id=2 --log-level debug`

    `penstock settings` tells what can be set.
    """
    from penstock.cli.serve import serve

    raise typer.Exit(serve(file, assignments or [], log_level=log_level))


@app.command(name="settings")
def settings_command(
    name: Annotated[
        str | None, typer.Argument(help="A setting, or a part of the names of several.", show_default=False)
    ] = None,
    topic: Annotated[bool, typer.Option("--topic", help="What can be said of one topic.")] = False,
    group: Annotated[bool, typer.Option("--group", help="What can be said of one group.")] = False,
    in_force: Annotated[bool, typer.Option("--in-force", help="Only what has an effect today.")] = False,
) -> None:
    """Tell what can be set, what it means and what is allowed.

    **Examples**

    - `penstock settings log.retention`

    - `penstock settings segment.bytes --topic`

    - `penstock settings --in-force | cut -f 1,2`
    """
    from penstock.cli.settings import show_settings

    status = show_settings(
        name, of_topics=topic, of_groups=group, in_force=in_force, on_terminal=sys.stdout.isatty()
    )
    raise typer.Exit(status)


@app.command(name="demo")
def demo_command(
    seconds: Annotated[
        float | None, typer.Option(help="End by itself after so long.", min=0, show_default=False)
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="Where the broker serves; by default 9092 or any free port.", show_default=False),
    ] = None,
) -> None:
    """Start a broker, write and read records before your eyes, and leave it serving until Ctrl-C."""
    from penstock.cli.demo import demo

    raise typer.Exit(demo(seconds=seconds, port=port))
