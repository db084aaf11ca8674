"""`penstock groups`: who reads what, how far behind they are, and where they go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from penstock.cli.connection import Connection
from penstock.cli.declare import Argument, Group, Option
from penstock.cli.output import Column, Output, show_duration

if TYPE_CHECKING:
    from penstock.cli.group_resets import Plan, Target
    from penstock.client.admin.groups import GroupDescription
    from penstock.client.admin.lag import LagAdmin, PartitionLag

command = Group(
    help="List and describe groups with their lag, reset their offsets, and delete them.",
    kafka="kafka-consumer-groups",
)

GROUP = Argument(metavar="GROUP", help="The group.", complete="group")
TIME = Option(
    "--time", help="Also how old the first record is that was not read; reads one batch of each partition."
)
BEHIND = Column("lag_ms", "behind", show_duration)
GROUPS = Argument(metavar="GROUP...", help="Groups; all where none is named.", complete="group")


@command.command(
    "list", examples=["penstock groups list", "penstock groups list --state stable --type consumer --json"]
)
def list_groups(
    *,
    connection: Connection,
    output: Output,
    types: Annotated[
        tuple[str, ...], Option("--type", help="Only of this type: classic, consumer, streams or share.")
    ] = (),
    states: Annotated[
        tuple[str, ...], Option("--state", help="Only in this state: stable, empty, preparing-rebalance ...")
    ] = (),
) -> None:
    """Tell which groups there are."""
    from penstock.cli.asking import ask
    from penstock.client.admin.groups import GroupsAdmin

    listed = ask(
        connection.settings(), GroupsAdmin, lambda admin: admin.list_groups(types=types, states=states)
    )
    output.table(
        ["group", "type", "state", "protocol"],
        [(group.group_id, group.type, group.state, group.protocol) for group in listed],
        empty="There are no such groups." if types or states else "There are no groups.",
    )


@command.command("lag", examples=["penstock groups lag", "penstock groups lag billing audit --json"])
def lag(
    group_ids: Annotated[tuple[str, ...], GROUPS] = (),
    *,
    connection: Connection,
    output: Output,
    time: Annotated[bool, TIME] = False,
) -> None:
    """Tell how far groups are behind in all: one line for each."""
    from penstock.cli.asking import ask
    from penstock.client.admin.lag import LagAdmin

    async def work(admin: LagAdmin) -> tuple[dict[str, GroupDescription], dict[str, list[PartitionLag]]]:
        wanted = group_ids or [group.group_id for group in await admin.list_groups()]
        return await admin.describe_groups(wanted), await admin.groups_lag(wanted, with_time=time)

    groups, lags = ask(connection.settings(), LagAdmin, work)
    columns: list[str | Column] = ["group", "state", "members", "topics", "partitions", "lag"]
    output.table(
        [*columns, BEHIND] if time else columns,
        [
            (
                group_id,
                groups[group_id].state,
                len(groups[group_id].members),
                len({each.partition.topic for each in parts}),
                len(parts),
                sum(each.lag or 0 for each in parts),
                *(
                    [max((each.lag_ms for each in parts if each.lag_ms is not None), default=None)]
                    if time
                    else []
                ),
            )
            for group_id, parts in sorted(lags.items())
        ],
        empty="There are no groups.",
    )


@command.command(
    "describe",
    examples=["penstock groups describe billing", "penstock groups describe billing --members --json"],
)
def describe(
    group_ids: Annotated[tuple[str, ...], GROUPS] = (),
    *,
    connection: Connection,
    output: Output,
    members: Annotated[
        bool, Option("--members", help="Who is in the group, rather than its offsets.")
    ] = False,
    state: Annotated[bool, Option("--state", help="How the group is, rather than its offsets.")] = False,
    time: Annotated[bool, TIME] = False,
) -> None:
    """Tell what groups have read of each partition and how far behind they are; or their members, or their state."""
    from penstock.cli.asking import ask
    from penstock.cli.failures import Misuse
    from penstock.client.admin.lag import LagAdmin

    if members and state:
        raise Misuse("--members and --state are two questions; ask one at a time")

    async def named(admin: LagAdmin) -> list[str]:
        return list(group_ids) or [group.group_id for group in await admin.list_groups()]

    async def described(admin: LagAdmin) -> dict[str, GroupDescription]:
        return await admin.describe_groups(await named(admin))

    async def lags(admin: LagAdmin) -> dict[str, list[PartitionLag]]:
        return await admin.groups_lag(await named(admin), with_time=time)

    if members:
        _show_members(output, ask(connection.settings(), LagAdmin, described))
    elif state:
        _show_states(output, ask(connection.settings(), LagAdmin, described))
    else:
        found = ask(connection.settings(), LagAdmin, lags)
        _show_lags(output, found, with_time=time)


def _show_lags(output: Output, lags: dict[str, list[PartitionLag]], *, with_time: bool) -> None:
    behind = [BEHIND] if with_time else []
    output.table(
        ["group", "topic", "partition", "offset", "end", "lag", *behind, "member", "host", "client"],
        [
            (
                group_id,
                part.partition.topic,
                part.partition.partition,
                part.committed_offset,
                part.end_offset,
                part.lag,
                *([part.lag_ms] if with_time else []),
                part.member.member_id if part.member else None,
                part.member.host if part.member else None,
                part.member.client_id if part.member else None,
            )
            for group_id, parts in sorted(lags.items())
            for part in parts
        ],
        empty="No offsets are committed, and no member has partitions." if lags else "There are no groups.",
    )


def _show_members(output: Output, groups: dict[str, GroupDescription]) -> None:
    output.table(
        ["group", "member", "instance", "host", "client", "partitions", "assignment"],
        [
            (
                group_id,
                member.member_id,
                member.instance_id,
                member.host,
                member.client_id,
                len(member.assignment),
                [str(partition) for partition in sorted(member.assignment)],
            )
            for group_id, group in sorted(groups.items())
            for member in group.members
        ],
        empty="There are no members." if groups else "There are no groups.",
    )


def _show_states(output: Output, groups: dict[str, GroupDescription]) -> None:
    output.table(
        ["group", "type", "state", "members", "assignor", "coordinator", "epoch"],
        [
            (
                group_id,
                group.type,
                group.state,
                len(group.members),
                getattr(group, "assignor", None),
                group.coordinator.id if group.coordinator else None,
                getattr(group, "epoch", None),
            )
            for group_id, group in sorted(groups.items())
        ],
        empty="There are no groups.",
    )


@command.command(
    "reset-offsets",
    examples=[
        "penstock groups reset-offsets billing --topic orders --to-earliest",
        "penstock groups reset-offsets billing --all-topics --to-time 2026-01-31T12:00:00Z --execute",
        "penstock groups reset-offsets billing --topic orders --to-time 15m",
        "penstock groups reset-offsets billing --topic orders:0,1 --shift-by=-10 --execute",
    ],
)
def reset_offsets(
    group_id: Annotated[str, GROUP],
    *,
    connection: Connection,
    output: Output,
    topics: Annotated[
        tuple[str, ...],
        Option(
            "--topic",
            metavar="TOPIC[:0,1]",
            help="A topic, or some of its partitions. May be repeated.",
            complete="topic",
        ),
    ] = (),
    all_topics: Annotated[bool, Option("--all-topics", help="All that the group has committed.")] = False,
    to_earliest: Annotated[bool, Option("--to-earliest", help="Read all there is.")] = False,
    to_latest: Annotated[bool, Option("--to-latest", help="Read what is still to come.")] = False,
    to_current: Annotated[bool, Option("--to-current", help="Stay where it is.")] = False,
    to_offset: Annotated[int | None, Option("--to-offset", help="Go on at this offset.")] = None,
    shift_by: Annotated[int | None, Option("--shift-by", help="So many records on, or back.")] = None,
    to_time: Annotated[
        str | None,
        Option(
            "--to-time",
            metavar="WHEN",
            help="The first record then or later: 2026-01-31T12:00:00Z, or how long ago, such as 15m.",
        ),
    ] = None,
    create: Annotated[bool, Option("--create", help="Create the group if it does not exist.")] = False,
    execute: Annotated[
        bool, Option("--execute", help="Reset the offsets. Without it, the plan is only shown.")
    ] = False,
) -> None:
    """Show, and with --execute change, the offsets at which a group without members continues."""
    from penstock.cli.asking import ask
    from penstock.cli.failures import Misuse
    from penstock.cli.group_resets import Target, check_group, current_offsets, partitions_meant, plan_reset
    from penstock.cli.output import say
    from penstock.client.admin.lag import LagAdmin

    if not topics and not all_topics:
        raise Misuse("say which topics: --topic orders, or --all-topics")
    target = Target(to_earliest, to_latest, to_current, to_offset, shift_by, _moment(to_time))
    _check_one(target)

    async def work(admin: LagAdmin) -> tuple[Plan, Plan]:
        if not create:
            await check_group(admin, group_id, advice="add --create for a new group")
        partitions = await partitions_meant(admin, group_id, topics, all_topics=all_topics)
        plan = await plan_reset(admin, group_id, partitions, target, tell=lambda told: say(str(told)))
        current = await current_offsets(admin, group_id, plan)
        if execute and plan:
            await admin.alter_group_offsets(group_id, plan)
        return current, plan

    current, plan = ask(connection.settings(), LagAdmin, work)
    output.table(
        [
            "group",
            "topic",
            "partition",
            Column("current_offset", "old offset" if execute else "current offset"),
            Column("offset", "new offset"),
            Column("difference", show=lambda records: f"{records:+,}"),
        ],
        [
            (
                group_id,
                *partition,
                current.get(partition),
                offset,
                offset - current[partition] if partition in current else None,
            )
            for partition, offset in sorted(plan.items())
        ],
        empty="There is nothing to reset: the group has no committed offsets.",
    )
    if plan and not execute:
        say("Nothing was changed. Add --execute to reset the offsets.")


def _moment(text: str | None) -> int | None:
    import time

    from penstock.cli.failures import Misuse
    from penstock.cli.times import EXAMPLES, parse_time

    if text is None:
        return None
    if text.isdecimal():
        return int(text)
    moment = parse_time(text, now_ms=time.time_ns() // 1_000_000)
    if moment is None:
        also = f"; use --to-{text}" if text in ("earliest", "latest", "current") else ""
        raise Misuse(f"--to-time {text}: must be {EXAMPLES}, or milliseconds since 1970{also}")
    return moment


def _check_one(target: Target) -> None:
    from penstock.cli.failures import Misuse

    said = [name for name, value in target._asdict().items() if value is not None and value is not False]
    if len(said) != 1:
        raise Misuse(
            "give exactly one of "
            "--to-earliest, --to-latest, --to-current, --to-offset, --shift-by or --to-time"
        )


@command.command("delete", examples=["penstock groups delete billing"])
def delete(
    group_ids: Annotated[
        list[str], Argument(metavar="GROUP...", help="Groups without members.", complete="group")
    ],
    *,
    connection: Connection,
    output: Output,
) -> None:
    """Forget groups and all that they have committed. This cannot be undone."""
    from penstock.cli.asking import ask
    from penstock.client.admin.groups import GroupsAdmin

    deleted = ask(connection.settings(), GroupsAdmin, lambda admin: admin.delete_groups(group_ids))
    output.result(f"deleted {', '.join(deleted)}", [{"group": group_id} for group_id in deleted])


@command.command(
    "delete-offsets", examples=["penstock groups delete-offsets billing --topic orders --topic payments:0"]
)
def delete_offsets(
    group_id: Annotated[str, GROUP],
    *,
    connection: Connection,
    output: Output,
    topics: Annotated[
        tuple[str, ...],
        Option(
            "--topic",
            metavar="TOPIC[:0,1]",
            help="A topic, or some of its partitions. May be repeated.",
            complete="topic",
        ),
    ],
) -> None:
    """Forget what a group has committed on topics that it is not reading."""
    from penstock.cli.asking import ask
    from penstock.cli.group_resets import partitions_meant
    from penstock.client.admin.lag import LagAdmin

    async def work(admin: LagAdmin) -> list[tuple[str, int]]:
        partitions = await partitions_meant(admin, group_id, topics, all_topics=False)
        return sorted(await admin.delete_group_offsets(group_id, partitions))

    deleted = ask(connection.settings(), LagAdmin, work)
    output.table(["group", "topic", "partition"], [(group_id, *partition) for partition in deleted])


@command.command("remove-members", examples=["penstock groups remove-members billing --instance worker-1"])
def remove_members(
    group_id: Annotated[str, GROUP],
    *,
    connection: Connection,
    output: Output,
    member_ids: Annotated[tuple[str, ...], Option("--member", help="A member's id. May be repeated.")] = (),
    instance_ids: Annotated[
        tuple[str, ...], Option("--instance", help="A static member's group.instance.id. May be repeated.")
    ] = (),
) -> None:
    """Have members leave a group: all of them, where none is named."""
    from penstock.cli.asking import ask
    from penstock.client.admin.groups import GroupsAdmin

    removed = ask(
        connection.settings(),
        GroupsAdmin,
        lambda admin: admin.remove_members(group_id, member_ids=member_ids, instance_ids=instance_ids),
    )
    output.table(
        ["group", "member"], [(group_id, member) for member in removed], empty="The group has no members."
    )
