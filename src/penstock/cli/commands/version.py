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

    return {
        "version": penstock.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "uvloop": _version_of_uvloop(),
    }


def _version_of_uvloop() -> str:
    from importlib import metadata

    try:
        return metadata.version("uvloop")
    except metadata.PackageNotFoundError:  # it is required on Linux and macOS only
        return "not installed"


command = Command(version, examples=["penstock version", "penstock version --more --json"])
