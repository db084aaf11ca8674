"""The way in: `penstock ...` and `python -m penstock ...`.

A broker has to be up at once, in tests and after a crash, and typer alone takes some 120 ms to load and to build its
commands: a third of what `make bench` counts from the start to the first answer. So `serve` is recognised here, with
the options that it has; whatever is not understood at once (help, a slip of the pen, any other command) goes to
typer, which has the words for it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

from penstock.cli.logs import LEVELS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    if arguments is None:
        arguments = sys.argv[1:]
    options = read_serve_options(arguments)
    if options is not None:
        from penstock.cli.serve import serve

        return serve(options.file, options.assignments, log_level=options.log_level)

    from penstock.cli.app import run_app

    return run_app(arguments)


class ServeOptions(NamedTuple):
    file: str | None
    assignments: list[str]
    log_level: str


def read_serve_options(arguments: Sequence[str]) -> ServeOptions | None:
    """What `penstock serve` was told, or None if it takes typer to understand or to refuse it."""
    if not arguments or arguments[0] != "serve":
        return None
    file: str | None = None
    assignments: list[str] = []
    log_level = "info"
    rest = iter(arguments[1:])
    for argument in rest:
        option, _, value = argument.partition("=")
        if option in ("--set", "--log-level"):
            value = value if "=" in argument else next(rest, "")
            if not value:
                return None
            if option == "--set":
                assignments.append(value)
            else:
                log_level = value
        elif argument.startswith("-") or file is not None:
            return None
        else:
            file = argument
    return ServeOptions(file, assignments, log_level) if log_level in LEVELS else None
