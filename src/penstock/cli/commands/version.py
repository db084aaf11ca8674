"""`penstock version`: which Penstock this is, and what it runs on."""

from __future__ import annotations

from typing import Annotated

import penstock
from penstock.cli.declare import Command, Option
from penstock.cli.output import Output


def version(
    *,
    output: Output,
    more: Annotated[bool, Option("--more", help="Also what it runs on.")] = False,
) -> None:
    """Print the version."""
    if not more:
        output.result(f"penstock {penstock.__version__}", {"version": penstock.__version__})
        return
    output.details(_facts())


def _facts() -> dict[str, object]:
    import platform
    from importlib import metadata

    from penstock.records import kernel

    return {
        "version": penstock.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "kernel": "compiled" if kernel.IS_COMPILED else "plain Python",
        "uvloop": metadata.version("uvloop"),
    }


command = Command(version, examples=["penstock version", "penstock version --more --json"])
