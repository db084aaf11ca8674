"""`penstock settings`: what can be said to it. What it does is in `cli.settings`."""

from __future__ import annotations

import sys
from typing import Annotated

from penstock.cli.declare import Argument, Command, Option


def settings(
    name: Annotated[
        str | None, Argument(help="A setting, or a part of the names of several.", complete="setting")
    ] = None,
    *,
    topic: Annotated[bool, Option("--topic", help="What can be said of one topic.")] = False,
    group: Annotated[bool, Option("--group", help="What can be said of one group.")] = False,
    in_force: Annotated[bool, Option("--in-force", help="Only what has an effect today.")] = False,
    json: Annotated[bool, Option("--json", help="Print JSON, for programs.")] = False,
) -> int:
    """Tell what can be set, what it means and what is allowed."""
    from penstock.cli.settings import show_settings

    return show_settings(
        name,
        of_topics=topic,
        of_groups=group,
        in_force=in_force,
        on_terminal=sys.stdout.isatty(),
        as_json=json,
    )


command = Command(
    settings,
    examples=[
        "penstock settings log.retention",
        "penstock settings segment.bytes --topic",
        "penstock settings --in-force | cut -f 1,2",
    ],
)
