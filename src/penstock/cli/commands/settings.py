"""`penstock settings`: what can be said to it. What it does is in `cli.settings`."""

from __future__ import annotations

import sys
from typing import Annotated

from penstock.cli.declare import Argument, Command, Option
from penstock.cli.failures import Misuse


def settings(
    name: Annotated[
        str | None, Argument(help="A setting, or a part of the names of several.", complete="setting")
    ] = None,
    *,
    topic: Annotated[bool, Option("--topic", help="What can be said of one topic.")] = False,
    group: Annotated[bool, Option("--group", help="What can be said of one group.")] = False,
    producer: Annotated[bool, Option("--producer", help="What can be said to a producer.")] = False,
    consumer: Annotated[bool, Option("--consumer", help="What can be said to a consumer.")] = False,
    admin: Annotated[bool, Option("--admin", help="What can be said to an admin.")] = False,
    in_force: Annotated[bool, Option("--in-force", help="Only what has an effect today.")] = False,
    json: Annotated[bool, Option("--json", help="Print JSON, for programs.")] = False,
) -> int:
    """Tell what can be set, what it means and what is allowed."""
    from penstock.cli.settings import show_settings

    kinds = {"topic": topic, "group": group, "producer": producer, "consumer": consumer, "admin": admin}
    chosen = [kind for kind, is_chosen in kinds.items() if is_chosen]
    if len(chosen) > 1:
        raise Misuse(f"say one of {' and '.join(f'--{kind}' for kind in chosen)}")
    return show_settings(
        name,
        of=chosen[0] if chosen else "broker",
        in_force=in_force,
        on_terminal=sys.stdout.isatty(),
        as_json=json,
    )


command = Command(
    settings,
    examples=[
        "penstock settings log.retention",
        "penstock settings segment.bytes --topic",
        "penstock settings linger.ms --producer",
        "penstock settings --in-force | cut -f 1,2",
    ],
)
