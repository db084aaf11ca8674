"""`kafka-consumer-groups.sh`: list, describe and delete consumer groups, and reset their offsets.

Like Kafka's tool, it prints errors of the cluster to stdout and exits with 0.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.cli.flags import OneOf, UsageError
from penstock.cli.kafka.tool import BOOTSTRAP_SERVER, COMMAND_CONFIG, Options, Tool, flag

if TYPE_CHECKING:
    from penstock.client.admin.lag import LagAdmin

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
VIEWS = ("members", "offsets", "state")
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


def _needs_groups(action: str) -> dict[str, str]:
    return {"group|all-groups": f"Option [{action}] takes one of these options: [all-groups], [group]"}


TOOL = Tool(
    "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, "
    "or reset consumer group offsets.",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    flag("list", "List all consumer groups."),
    flag("describe", "Describe consumer groups and list their lag.", needs=_needs_groups("describe")),
    flag(
        "delete",
        "Delete groups and their committed offsets.",
        needs=_needs_groups("delete"),
        forbids={
            "topic": "The consumer does not support topic-specific offset deletion from a consumer group."
        },
    ),
    flag("reset-offsets", "Reset offsets of a consumer group.", needs=_needs_groups("reset-offsets")),
    flag(
        "delete-offsets",
        "Delete offsets of a consumer group.",
        needs=dict.fromkeys(
            ("group", "topic"), "Option [delete-offsets] takes the following options: [topic], [group]"
        ),
    ),
    flag("validate-regex", "Check whether a regular expression can be subscribed to.", "String: regex"),
    flag("group", "The consumer group to act on.", "consumer group", forbids=("all-groups", "list")),
    flag("all-groups", "Apply to all consumer groups."),
    flag(
        "topic",
        "A topic, or some of its partitions: topic1:0,1,2",
        "topic",
        forbids=("list", "describe", "delete"),
    ),
    flag("all-topics", "All topics for which the group has committed offsets."),
    flag("timeout", "Milliseconds to wait for a response.", "Long: timeout (ms)", default="5000"),
    flag(
        "state",
        "With --describe, show the state; with --list, show the state or filter by it.",
        "String",
        has_optional_value=True,
    ),
    flag(
        "type",
        "With --list, show the types of the groups or filter by them.",
        "String",
        has_optional_value=True,
    ),
    flag("members", "Describe members of the group."),
    flag("offsets", "Describe offsets of the group."),
    flag("verbose", "Show more columns."),
    flag("dry-run", "Only show results of a reset."),
    flag("execute", "Execute a reset."),
    flag("export", "Print the plan of a reset as CSV."),
    flag("to-offset", "Reset to an offset.", "Long: offset"),
    flag("from-file", "Reset to the offsets in a CSV file.", "String: path to CSV file"),
    flag("to-datetime", "Reset to the first record at or after a time.", "YYYY-MM-DDThh:mm:ss.sss"),
    flag("by-duration", "Reset to this long ago.", "PnDTnHnMnS"),
    flag("to-earliest", "Reset to the earliest offset."),
    flag("to-latest", "Reset to the latest offset."),
    flag("to-current", "Reset to the current offset."),
    flag("shift-by", "Move by this many records, forward or back.", "Long: number-of-offsets"),
    one_of=[
        OneOf(
            ACTIONS,
            "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, "
            "--delete-offsets, --validate-regex",
        ),
        OneOf(
            VIEWS,
            "Option [describe] takes at most one of these options: [members], [offsets], [state]",
            is_required=False,
            action="describe",
        ),
        OneOf(
            ("dry-run", "execute"),
            "Option [reset-offsets] only accepts one of [execute] and [dry-run]",
            is_required=False,
            action="reset-offsets",
        ),
        OneOf(SCENARIOS, is_required=False, action="reset-offsets"),
    ],
)

DRY = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require "
    "either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if you are "
    "scripting this command and want to keep the current default behavior without prompting."
)


def run(options: Options) -> int:
    from penstock.cli.kafka.admin import message_of
    from penstock.cli.kafka.consumer_group_resets import reset_offsets
    from penstock.client.errors import BadArgument, NoBrokersAvailable, PenstockError

    action = options.given(ACTIONS)
    if action == "describe" and options.get("state") is not None:
        raise UsageError("Option [describe] does not take a value for [state]")
    if action == "reset-offsets" and not options.has("dry-run") and not options.has("execute"):
        print(DRY, file=sys.stderr)
    work: dict[str, Callable[[Options], None]] = {
        "list": _list,
        "describe": _describe,
        "delete": _delete,
        "reset-offsets": reset_offsets,
        "delete-offsets": _delete_offsets,
        "validate-regex": _validate,
    }
    try:
        work[action](options)
    except NoBrokersAvailable:
        raise
    except BadArgument as bad:
        raise UsageError(message_of(bad)) from None
    except PenstockError as problem:
        print(f"\nError: Executing consumer group command failed due to {message_of(problem)}")
    return 0


def _list(options: Options) -> None:
    from penstock.cli.kafka.admin import with_admin
    from penstock.cli.kafka.consumer_group_tables import print_listing
    from penstock.client.admin.groups import GroupsAdmin, GroupState, GroupType

    types, states = (_names(options, flag) for flag in ("type", "state"))
    valid = [each for each in GroupState if each not in (GroupState.UNKNOWN, GroupState.NOT_READY)]
    known = {each.lower() for each in valid}
    if any(name.lower() not in known for name in states):
        raise UsageError(f"Invalid state list '{options.get('state')}'. Valid states are: {', '.join(valid)}")
    consumers = [GroupType.CLASSIC, GroupType.CONSUMER]
    if any(GroupType(name) not in consumers for name in types):
        raise UsageError(
            f"Invalid types list '{options.get('type')}'. Valid types are: {', '.join(consumers)}"
        )
    listed = with_admin(
        options, GroupsAdmin, lambda admin: admin.list_groups(types=types or consumers, states=states)
    )
    # Only groups of consumers; classic groups may have other protocols.
    consuming = [group for group in listed if group.protocol in ("", "consumer")]
    print_listing(consuming, with_type=options.has("type"), with_state=options.has("state"))


def _names(options: Options, flag: str) -> list[str]:
    return [name.strip() for name in (options.get(flag) or "").split(",") if name.strip()]


async def select_groups(options: Options, admin: LagAdmin) -> list[str]:
    if not options.has("all-groups"):
        return options.all("group")
    listed = await admin.list_groups(types=["classic", "consumer"])
    return [group.group_id for group in listed if group.protocol in ("", "consumer")]


def _describe(options: Options) -> None:
    from penstock.cli.kafka import consumer_group_tables as tables
    from penstock.cli.kafka.admin import with_admin
    from penstock.client.admin.lag import LagAdmin

    verbose = options.has("verbose")

    async def work(admin: LagAdmin) -> None:
        groups = await admin.describe_groups(await select_groups(options, admin))
        if options.has("members") or options.has("state"):
            show = tables.print_members if options.has("members") else tables.print_state
            for group_id in sorted(groups):
                show(groups[group_id], verbose=verbose)
            return
        lags = await admin.groups_lag(groups)
        for group_id in sorted(groups):
            tables.print_offsets(groups[group_id], lags[group_id], verbose=verbose)

    with_admin(options, LagAdmin, work)


def _delete(options: Options) -> None:
    from penstock.cli.kafka.admin import message_of, with_admin
    from penstock.client.admin.lag import LagAdmin
    from penstock.client.errors import ItemsFailed

    async def work(admin: LagAdmin) -> list[str]:
        return list(await admin.delete_groups(await select_groups(options, admin)))

    try:
        deleted = with_admin(options, LagAdmin, work)
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


def _delete_offsets(options: Options) -> None:
    from penstock.cli.group_resets import select_partitions
    from penstock.cli.kafka.admin import with_admin
    from penstock.cli.kafka.consumer_group_tables import print_deleted_offsets
    from penstock.client.admin.lag import LagAdmin
    from penstock.client.cluster import TopicPartition
    from penstock.client.errors import ItemsFailed, PenstockError, UnknownTopicOrPartition

    group_id = options.text("group")

    async def work(admin: LagAdmin) -> dict[TopicPartition, PenstockError | None]:
        results: dict[TopicPartition, PenstockError | None] = {}
        wanted: list[TopicPartition] = []
        for topic in options.all("topic"):
            try:
                wanted += await select_partitions(admin, group_id, [topic], all_topics=False)
            except UnknownTopicOrPartition as error:
                results[TopicPartition(topic, -1)] = error
        try:
            results |= dict.fromkeys(await admin.delete_group_offsets(group_id, wanted))
        except ItemsFailed as failed:
            results |= dict.fromkeys(failed.results)
            results |= failed.failures
        return results

    print_deleted_offsets(group_id, with_admin(options, LagAdmin, work))


def _validate(options: Options) -> None:
    from penstock.coordinator.regex import compile_regex
    from penstock.metadata.errors import Refused

    regex = options.text("validate-regex")
    try:
        compile_regex(regex)
    except Refused as refused:
        print(f"The regular expression `{regex}` is invalid: {str(refused).rpartition(': ')[2]}")
    else:
        print(f"The regular expression `{regex}` is valid.")
