"""`kafka-consumer-groups.sh`: list, describe and delete groups of consumers, and reset their offsets.

As Kafka's tool does, it ends with 0 where the cluster refused something, and says so on stdout.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock.cli.kafka.flags import BOOTSTRAP_SERVER, COMMAND_CONFIG, BadFlags, Flag, Flags, Said, run_tool

if TYPE_CHECKING:
    from penstock.client.admin.lag import LagAdmin

FLAGS = Flags(
    "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, "
    "or reset consumer group offsets.",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Flag("list", "List all consumer groups."),
    Flag("describe", "Describe consumer groups and list their lag."),
    Flag("delete", "Delete groups and all that they have committed."),
    Flag("reset-offsets", "Reset offsets of a consumer group."),
    Flag("delete-offsets", "Delete offsets of a consumer group."),
    Flag("validate-regex", "Tell whether a regular expression can be subscribed to.", "String: regex"),
    Flag("group", "The consumer group to act on.", "consumer group"),
    Flag("all-groups", "Apply to all consumer groups."),
    Flag("topic", "A topic, or some of its partitions: topic1:0,1,2", "topic"),
    Flag("all-topics", "All topics that the group has committed."),
    Flag("timeout", "Milliseconds to wait for an answer.", "Long: timeout (ms)", default="5000"),
    Flag("state", "The state, of a described group or to list by.", "String", may_be_alone=True),
    Flag("type", "Types of groups to list, or to show.", "String", may_be_alone=True),
    Flag("members", "Describe members of the group."),
    Flag("offsets", "Describe offsets of the group."),
    Flag("verbose", "Tell more."),
    Flag("dry-run", "Only show results of a reset."),
    Flag("execute", "Execute a reset."),
    Flag("export", "Print a plan of a reset as CSV."),
    Flag("to-offset", "Reset to an offset.", "Long: offset"),
    Flag("from-file", "Reset to offsets of a CSV file.", "String: path to CSV file"),
    Flag("to-datetime", "Reset to the first record at or after a time.", "YYYY-MM-DDThh:mm:ss.sss"),
    Flag("by-duration", "Reset to so long ago.", "PnDTnHnMnS"),
    Flag("to-earliest", "Reset to the beginning."),
    Flag("to-latest", "Reset to the end."),
    Flag("to-current", "Reset to where the group is."),
    Flag("shift-by", "Reset by so many records, on or back.", "Long: number-of-offsets"),
)

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
ONE_ACTION = (
    "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, --delete-offsets, "
    "--validate-regex"
)
SCENARIOS = (
    "to-offset",
    "shift-by",
    "to-datetime",
    "by-duration",
    "to-earliest",
    "to-latest",
    "to-current",
    "from-file",
)
DRY = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require "
    "either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if you are "
    "scripting this command and want to keep the current default behavior without prompting."
)


def run(arguments: Sequence[str]) -> int:
    return run_tool(FLAGS, arguments, _run)


def _run(said: Said) -> int:
    from penstock.cli.kafka.consumer_group_resets import reset_offsets
    from penstock.cli.kafka.tools import chosen, message_of
    from penstock.client.errors import BadArgument, NoBrokersAvailable, PenstockError

    action = chosen(said, ACTIONS, ONE_ACTION)
    _check(said, action)
    work: dict[str, Callable[[Said], None]] = {
        "list": _list,
        "describe": _describe,
        "delete": _delete,
        "reset-offsets": reset_offsets,
        "delete-offsets": _delete_offsets,
        "validate-regex": _validate,
    }
    try:
        work[action](said)
    except NoBrokersAvailable:
        raise
    except BadArgument as bad:
        raise BadFlags(message_of(bad)) from None
    except PenstockError as problem:
        print(f"\nError: Executing consumer group command failed due to {message_of(problem)}")
    return 0


def _check(said: Said, action: str) -> None:
    from penstock.cli.kafka.tools import forbid

    if action in ("describe", "delete", "reset-offsets") and not (
        said.has("group") or said.has("all-groups")
    ):
        raise BadFlags(f"Option [{action}] takes one of these options: [all-groups], [group]")
    if action == "describe":
        if sum(said.has(flag) for flag in ("members", "offsets", "state")) > 1:
            raise BadFlags(
                "Option [describe] takes at most one of these options: [members], [offsets], [state]"
            )
        if said.get("state") is not None:
            raise BadFlags("Option [describe] does not take a value for [state]")
    if action == "delete" and said.has("topic"):
        raise BadFlags("The consumer does not support topic-specific offset deletion from a consumer group.")
    if action == "delete-offsets" and not (said.has("group") and said.has("topic")):
        raise BadFlags("Option [delete-offsets] takes the following options: [topic], [group]")
    if action == "reset-offsets":
        if said.has("dry-run") and said.has("execute"):
            raise BadFlags("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
        if not said.has("dry-run") and not said.has("execute"):
            print(DRY, file=sys.stderr)
        for scenario in SCENARIOS:
            forbid(said, scenario, *(other for other in SCENARIOS if other != scenario))
    forbid(said, "group", "all-groups", "list")
    forbid(said, "topic", "list", "describe", "delete")


def _list(said: Said) -> None:
    from penstock.cli.kafka.consumer_group_tables import print_listing
    from penstock.cli.kafka.tools import ask_cluster
    from penstock.client.admin.groups import GroupsAdmin, GroupState, GroupType

    types, states = (_names(said, flag) for flag in ("type", "state"))
    valid = [each for each in GroupState if each not in (GroupState.UNKNOWN, GroupState.NOT_READY)]
    known = {each.lower() for each in valid}
    if any(name.lower() not in known for name in states):
        raise BadFlags(f"Invalid state list '{said.get('state')}'. Valid states are: {', '.join(valid)}")
    consumers = [GroupType.CLASSIC, GroupType.CONSUMER]
    if any(GroupType(name) not in consumers for name in types):
        raise BadFlags(f"Invalid types list '{said.get('type')}'. Valid types are: {', '.join(consumers)}")
    listed = ask_cluster(
        said, GroupsAdmin, lambda admin: admin.list_groups(types=types or consumers, states=states)
    )
    # Classic groups that something else than consumers uses are not this tool's business.
    consuming = [group for group in listed if group.protocol in ("", "consumer")]
    print_listing(consuming, with_type=said.has("type"), with_state=said.has("state"))


def _names(said: Said, flag: str) -> list[str]:
    return [name.strip() for name in (said.get(flag) or "").split(",") if name.strip()]


async def groups_meant(said: Said, admin: LagAdmin) -> list[str]:
    if not said.has("all-groups"):
        return said.all("group")
    listed = await admin.list_groups(types=["classic", "consumer"])
    return [group.group_id for group in listed if group.protocol in ("", "consumer")]


def _describe(said: Said) -> None:
    from penstock.cli.kafka import consumer_group_tables as tables
    from penstock.cli.kafka.tools import ask_cluster
    from penstock.client.admin.lag import LagAdmin

    verbose = said.has("verbose")

    async def work(admin: LagAdmin) -> None:
        groups = await admin.describe_groups(await groups_meant(said, admin))
        if said.has("members") or said.has("state"):
            show = tables.print_members if said.has("members") else tables.print_state
            for group_id in sorted(groups):
                show(groups[group_id], verbose=verbose)
            return
        lags = await admin.groups_lag(groups)
        for group_id in sorted(groups):
            tables.print_offsets(groups[group_id], lags[group_id], verbose=verbose)

    ask_cluster(said, LagAdmin, work)


def _delete(said: Said) -> None:
    from penstock.cli.kafka.tools import ask_cluster, message_of
    from penstock.client.admin.lag import LagAdmin
    from penstock.client.errors import ItemsFailed

    async def work(admin: LagAdmin) -> list[str]:
        return list(await admin.delete_groups(await groups_meant(said, admin)))

    try:
        deleted = ask_cluster(said, LagAdmin, work)
    except ItemsFailed as failed:
        print("\nError: Deletion of some consumer groups failed:")
        for group_id, error in failed.failures.items():
            print(f"* Group '{group_id}' could not be deleted due to: {message_of(error)}")
        if failed.results:
            names = "', '".join(failed.results)
            print(f"\nThese consumer groups were deleted successfully: '{names}'")
        return
    names = "', '".join(deleted)
    print(f"Deletion of requested consumer groups ('{names}') was successful.")


def _delete_offsets(said: Said) -> None:
    from penstock.cli.group_resets import partitions_meant
    from penstock.cli.kafka.consumer_group_tables import print_deleted_offsets
    from penstock.cli.kafka.tools import ask_cluster
    from penstock.client.admin.lag import LagAdmin
    from penstock.client.cluster import TopicPartition
    from penstock.client.errors import ItemsFailed, PenstockError, UnknownTopicOrPartition

    group_id = said.text("group")

    async def work(admin: LagAdmin) -> dict[TopicPartition, PenstockError | None]:
        told: dict[TopicPartition, PenstockError | None] = {}
        wanted: list[TopicPartition] = []
        for topic in said.all("topic"):
            try:
                wanted += await partitions_meant(admin, group_id, [topic], all_topics=False)
            except UnknownTopicOrPartition as error:
                told[TopicPartition(topic, -1)] = error
        try:
            told |= dict.fromkeys(await admin.delete_group_offsets(group_id, wanted))
        except ItemsFailed as failed:
            told |= dict.fromkeys(failed.results)
            told |= failed.failures
        return told

    print_deleted_offsets(group_id, ask_cluster(said, LagAdmin, work))


def _validate(said: Said) -> None:
    from penstock.coordinator.regex import compile_regex
    from penstock.metadata.errors import Refused

    regex = said.text("validate-regex")
    try:
        compile_regex(regex)
    except Refused as refused:
        print(f"The regular expression `{regex}` is invalid: {str(refused).rpartition(': ')[2]}")
    else:
        print(f"The regular expression `{regex}` is valid.")
