"""`kafka-groups.sh`: list groups of every type."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from penstock.cli.failures import FAILED
from penstock.cli.kafka.flags import BOOTSTRAP_SERVER, COMMAND_CONFIG, Flag, Flags, Said, run_tool

FLAGS = Flags(
    "This tool helps to list groups of all types.",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Flag("list", "List the groups."),
    Flag("group-type", "Only groups of this type.", "String: type"),
    Flag("protocol", "Only groups of this protocol.", "String: protocol"),
    Flag("consumer", "Only groups of consumers, of all types."),
    Flag("share", "Only share groups."),
    Flag("streams", "Only streams groups."),
)


def run(arguments: Sequence[str]) -> int:
    return run_tool(FLAGS, arguments, _run)


def _run(said: Said) -> int:
    from penstock.cli.kafka.tools import ask_cluster, chosen, forbid
    from penstock.client.admin.groups import GroupListing, GroupsAdmin, GroupType

    chosen(said, ("list",), "Command must include exactly one action: --list.")
    for flag in ("consumer", "share", "streams"):
        others = {"consumer", "share", "streams", "group-type", "protocol"} - {flag}
        forbid(said, flag, *sorted(others))
    wanted = said.get("group-type")
    if wanted is not None and GroupType(wanted) is GroupType.UNKNOWN:
        print("--group-type must be a valid group type.", file=sys.stderr)
        return FAILED

    def is_meant(group: GroupListing) -> bool:
        if said.has("consumer"):
            is_consuming = group.type is GroupType.CLASSIC and group.protocol in ("", "consumer")
            return is_consuming or group.type is GroupType.CONSUMER
        if said.has("share") or said.has("streams"):
            return group.type is (GroupType.SHARE if said.has("share") else GroupType.STREAMS)
        return (wanted is None or group.type is GroupType(wanted)) and said.get("protocol") in (
            None,
            group.protocol,
        )

    listed = [
        group
        for group in ask_cluster(said, GroupsAdmin, lambda admin: admin.list_groups())
        if is_meant(group)
    ]
    width = max([20, *(len(group.group_id) for group in listed)])
    for cells in (
        ("GROUP", "TYPE", "PROTOCOL"),
        *((group.group_id, group.type, group.protocol) for group in listed),
    ):
        print(f"{cells[0]:<{width}} {cells[1]:<20} {cells[2]:<20}")
    return 0
