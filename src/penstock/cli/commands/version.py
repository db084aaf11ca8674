"""`penstock version`: the versions of Penstock and its platform."""

from __future__ import annotations

from typing import Annotated

import penstock
from penstock.cli.declare import Command, option
from penstock.cli.output import Output


def version(
    *,
    output: Output,
    more: Annotated[bool, option("--more", help="Also show Python, operating system and uvloop.")] = False,
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
    except metadata.PackageNotFoundError:  # required on Linux and macOS only
        return "not installed"


command = Command(version, examples=["penstock version", "penstock version --more --json"])
