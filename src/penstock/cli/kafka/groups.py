"""`kafka-groups.sh`: list groups of every type."""

from __future__ import annotations

import sys

from penstock.cli.failures import FAILED
from penstock.cli.flags import OneOf
from penstock.cli.kafka.tool import BOOTSTRAP_SERVER, COMMAND_CONFIG, Options, Tool, flag

FILTERS = ("consumer", "group-type", "protocol", "share", "streams")


def _filters_but(name: str) -> tuple[str, ...]:
    return tuple(other for other in FILTERS if other != name)


TOOL = Tool(
    "This tool helps to list groups of all types.",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    flag("list", "List the groups."),
    flag("group-type", "Only groups of this type.", "String: type"),
    flag("protocol", "Only groups of this protocol.", "String: protocol"),
    flag("consumer", "Only groups of consumers, of all types.", forbids=_filters_but("consumer")),
    flag("share", "Only share groups.", forbids=_filters_but("share")),
    flag("streams", "Only streams groups.", forbids=_filters_but("streams")),
    one_of=[OneOf(("list",), "Command must include exactly one action: --list.")],
)


def run(options: Options) -> int:
    from penstock.cli.kafka.admin import with_admin
    from penstock.client.admin.groups import GroupListing, GroupsAdmin, GroupType

    wanted = options.get("group-type")
    if wanted is not None and GroupType(wanted) is GroupType.UNKNOWN:
        print("--group-type must be a valid group type.", file=sys.stderr)
        return FAILED

    def is_selected(group: GroupListing) -> bool:
        if options.has("consumer"):
            is_consuming = group.type is GroupType.CLASSIC and group.protocol in ("", "consumer")
            return is_consuming or group.type is GroupType.CONSUMER
        if options.has("share") or options.has("streams"):
            return group.type is (GroupType.SHARE if options.has("share") else GroupType.STREAMS)
        return (wanted is None or group.type is GroupType(wanted)) and options.get("protocol") in (
            None,
            group.protocol,
        )

    listed = [
        group
        for group in with_admin(options, GroupsAdmin, lambda admin: admin.list_groups())
        if is_selected(group)
    ]
    width = max([20, *(len(group.group_id) for group in listed)])
    for cells in (
        ("GROUP", "TYPE", "PROTOCOL"),
        *((group.group_id, group.type, group.protocol) for group in listed),
    ):
        print(f"{cells[0]:<{width}} {cells[1]:<20} {cells[2]:<20}")
    return 0
