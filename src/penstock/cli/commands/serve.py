"""`penstock serve`: what can be said to it. What it does is in `cli.serve`."""

from __future__ import annotations

from typing import Annotated, Literal

from penstock.cli.declare import Argument, Command, Option


def serve(
    file: Annotated[
        str | None,
        Argument(
            metavar="server.properties",
            help="Settings in Kafka's own format and names.",
            complete="file",
        ),
    ] = None,
    *,
    assignments: Annotated[
        tuple[str, ...],
        Option("--set", "-s", metavar="KEY=VALUE", help="A setting that outranks the file. May be repeated."),
    ] = (),
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Option("--log-level", help="How much to tell on stderr."),
    ] = "info",
) -> int:
    """Run a node until it is told to stop by SIGTERM or Ctrl-C.

    With nothing said it serves on 127.0.0.1:9092 and keeps its data in the user's state directory. When it
    serves, it prints a line that begins with `penstock ready`. `penstock settings` tells what can be set.
    """
    from penstock.cli.serve import serve

    return serve(file, assignments, log_level=log_level)


command = Command(
    serve,
    examples=[
        "penstock serve",
        "penstock serve server.properties",
        "penstock serve --set listeners=PLAINTEXT://:9092 --set log.dirs=/var/lib/penstock",
        "penstock serve server.properties --set node.id=2 --log-level debug",
    ],
)
