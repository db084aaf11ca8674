"""`penstock settings`: its options. `cli.settings` does the work."""

from __future__ import annotations

import sys
from typing import Annotated

from penstock.cli.declare import Command, argument, option
from penstock.cli.flags import OneOf


def settings(
    name: Annotated[
        str | None, argument(help="A setting, or a part of the name.", complete="setting")
    ] = None,
    *,
    topic: Annotated[bool, option("--topic", help="Configs of topics.")] = False,
    group: Annotated[bool, option("--group", help="Configs of groups.")] = False,
    producer: Annotated[bool, option("--producer", help="Settings of producers.")] = False,
    consumer: Annotated[bool, option("--consumer", help="Settings of consumers.")] = False,
    admin: Annotated[bool, option("--admin", help="Settings of admin clients.")] = False,
    in_force: Annotated[bool, option("--in-force", help="Only settings that are implemented.")] = False,
    json: Annotated[bool, option("--json", help="Print JSON.")] = False,
) -> int:
    """List settings with their documentation, default and valid values; by default of brokers."""
    from penstock.cli.settings import show_settings

    kinds = {"topic": topic, "group": group, "producer": producer, "consumer": consumer, "admin": admin}
    chosen = [kind for kind, is_chosen in kinds.items() if is_chosen]
    return show_settings(
        name,
        of=chosen[0] if chosen else "broker",
        in_force=in_force,
        on_terminal=sys.stdout.isatty(),
        as_json=json,
    )


KINDS = ("topic", "group", "producer", "consumer", "admin")

command = Command(
    settings,
    one_of=[OneOf(KINDS, f"give only one of {', '.join(f'--{kind}' for kind in KINDS)}", is_required=False)],
    examples=[
        "penstock settings log.retention",
        "penstock settings segment.bytes --topic",
        "penstock settings linger.ms --producer",
        "penstock settings --in-force | cut -f 1,2",
    ],
)
