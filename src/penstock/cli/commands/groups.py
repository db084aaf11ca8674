"""`penstock groups`: groups, their members, their lag and their committed offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from penstock.cli.connection import Connection
from penstock.cli.declare import Group, argument, option
from penstock.cli.flags import OneOf
from penstock.cli.output import Column, Output, show_duration

if TYPE_CHECKING:
    from penstock.cli.group_resets import Plan
    from penstock.client.admin.groups import GroupDescription
    from penstock.client.admin.lag import LagAdmin, PartitionLag

command = Group(
    help="List and describe groups with their lag, reset their offsets, and delete them.",
    kafka="kafka-consumer-groups",
)

GROUP = argument(metavar="GROUP", help="The group.", complete="group")
TIME = option("--time", help="Also show the age of the first unread record; reads one batch per partition.")
BEHIND = Column("lag_ms", "behind", show_duration)
GROUPS = argument(metavar="GROUP...", help="Groups, by default all.", complete="group")


@command.command(
    "list", examples=["penstock groups list", "penstock groups list --state stable --type consumer --json"]
)
def list_groups(
    *,
    connection: Connection,
    output: Output,
    types: Annotated[
        tuple[str, ...],
        option("--type", help="Only groups of this type: classic, consumer, streams or share."),
    ] = (),
    states: Annotated[
        tuple[str, ...],
        option("--state", help="Only groups in this state: stable, empty, preparing-rebalance ..."),
    ] = (),
) -> None:
    """List groups."""
    from penstock.client.admin.groups import GroupsAdmin

    listed = connection.with_admin(GroupsAdmin, lambda admin: admin.list_groups(types=types, states=states))
    output.table(
        ["group", "type", "state", "protocol"],
        [(group.group_id, group.type, group.state, group.protocol) for group in listed],
        empty="No group matches." if types or states else "There are no groups.",
    )


@command.command("lag", examples=["penstock groups lag", "penstock groups lag billing audit --json"])
def lag(
    group_ids: Annotated[tuple[str, ...], GROUPS] = (),
    *,
    connection: Connection,
    output: Output,
    time: Annotated[bool, TIME] = False,
) -> None:
    """Show the total lag of each group."""
    from penstock.client.admin.lag import LagAdmin

    async def work(admin: LagAdmin) -> tuple[dict[str, GroupDescription], dict[str, list[PartitionLag]]]:
        wanted = group_ids or [group.group_id for group in await admin.list_groups()]
        return await admin.describe_groups(wanted), await admin.groups_lag(wanted, with_time=time)

    groups, lags = connection.with_admin(LagAdmin, work)
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
        bool, option("--members", forbids=("state",), help="Show the members instead of the offsets.")
    ] = False,
    state: Annotated[bool, option("--state", help="Show the state instead of the offsets.")] = False,
    time: Annotated[bool, TIME] = False,
) -> None:
    """Show the committed offset and lag of each partition, or the members or state of groups."""
    from penstock.client.admin.lag import LagAdmin

    async def named(admin: LagAdmin) -> list[str]:
        return list(group_ids) or [group.group_id for group in await admin.list_groups()]

    async def described(admin: LagAdmin) -> dict[str, GroupDescription]:
        return await admin.describe_groups(await named(admin))

    async def lags(admin: LagAdmin) -> dict[str, list[PartitionLag]]:
        return await admin.groups_lag(await named(admin), with_time=time)

    if members:
        _show_members(output, connection.with_admin(LagAdmin, described))
    elif state:
        _show_states(output, connection.with_admin(LagAdmin, described))
    else:
        found = connection.with_admin(LagAdmin, lags)
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
        empty="No committed offsets, and no member has partitions." if lags else "There are no groups.",
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
    one_of=[
        OneOf(
            ("to_earliest", "to_latest", "to_current", "to_offset", "shift_by", "to_time"),
            "give exactly one of "
            "--to-earliest, --to-latest, --to-current, --to-offset, --shift-by or --to-time",
        )
    ],
)
def reset_offsets(
    group_id: Annotated[str, GROUP],
    *,
    connection: Connection,
    output: Output,
    topics: Annotated[
        tuple[str, ...],
        option(
            "--topic",
            metavar="TOPIC[:0,1]",
            help="A topic, or some of its partitions. May be repeated.",
            complete="topic",
        ),
    ] = (),
    all_topics: Annotated[
        bool, option("--all-topics", help="All topics for which the group has committed offsets.")
    ] = False,
    to_earliest: Annotated[bool, option("--to-earliest", help="To the earliest offset.")] = False,
    to_latest: Annotated[bool, option("--to-latest", help="To the latest offset.")] = False,
    to_current: Annotated[bool, option("--to-current", help="To the current offset.")] = False,
    to_offset: Annotated[int | None, option("--to-offset", help="To this offset.")] = None,
    shift_by: Annotated[
        int | None, option("--shift-by", help="Forward by this many records; back if negative.")
    ] = None,
    to_time: Annotated[
        str | None,
        option(
            "--to-time",
            metavar="WHEN",
            help="To the first record at or after this time: 2026-01-31T12:00:00Z, or how long ago, such as 15m.",
        ),
    ] = None,
    create: Annotated[bool, option("--create", help="Create the group if it does not exist.")] = False,
    execute: Annotated[
        bool, option("--execute", help="Reset the offsets. Without it, only the plan is shown.")
    ] = False,
) -> None:
    """Show, and with --execute change, the offsets at which a group without members continues."""
    from penstock.cli.failures import Misuse
    from penstock.cli.group_resets import Target, check_group, current_offsets, plan_reset, select_partitions
    from penstock.cli.output import say
    from penstock.client.admin.lag import LagAdmin

    if not topics and not all_topics:
        raise Misuse("name the topics: --topic orders, or --all-topics")
    target = Target(to_earliest, to_latest, to_current, to_offset, shift_by, _moment(to_time))

    async def work(admin: LagAdmin) -> tuple[Plan, Plan]:
        if not create:
            await check_group(admin, group_id, advice="add --create for a new group")
        partitions = await select_partitions(admin, group_id, topics, all_topics=all_topics)
        plan = await plan_reset(
            admin, group_id, partitions, target, report=lambda deviation: say(str(deviation))
        )
        current = await current_offsets(admin, group_id, plan)
        if execute and plan:
            await admin.alter_group_offsets(group_id, plan)
        return current, plan

    current, plan = connection.with_admin(LagAdmin, work)
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
        empty="Nothing to reset: the group has no committed offsets.",
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


@command.command("delete", examples=["penstock groups delete billing"])
def delete(
    group_ids: Annotated[
        list[str], argument(metavar="GROUP...", help="Groups without members.", complete="group")
    ],
    *,
    connection: Connection,
    output: Output,
) -> None:
    """Delete groups and their committed offsets. This cannot be undone."""
    from penstock.client.admin.groups import GroupsAdmin

    deleted = connection.with_admin(GroupsAdmin, lambda admin: admin.delete_groups(group_ids))
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
        option(
            "--topic",
            metavar="TOPIC[:0,1]",
            help="A topic, or some of its partitions. May be repeated.",
            complete="topic",
        ),
    ],
) -> None:
    """Delete committed offsets of topics to which the group is not subscribed."""
    from penstock.cli.group_resets import select_partitions
    from penstock.client.admin.lag import LagAdmin

    async def work(admin: LagAdmin) -> list[tuple[str, int]]:
        partitions = await select_partitions(admin, group_id, topics, all_topics=False)
        return sorted(await admin.delete_group_offsets(group_id, partitions))

    deleted = connection.with_admin(LagAdmin, work)
    output.table(["group", "topic", "partition"], [(group_id, *partition) for partition in deleted])


@command.command("remove-members", examples=["penstock groups remove-members billing --instance worker-1"])
def remove_members(
    group_id: Annotated[str, GROUP],
    *,
    connection: Connection,
    output: Output,
    member_ids: Annotated[tuple[str, ...], option("--member", help="A member's id. May be repeated.")] = (),
    instance_ids: Annotated[
        tuple[str, ...], option("--instance", help="A static member's group.instance.id. May be repeated.")
    ] = (),
) -> None:
    """Remove members from a group; by default all of them."""
    from penstock.client.admin.groups import GroupsAdmin

    removed = connection.with_admin(
        GroupsAdmin,
        lambda admin: admin.remove_members(group_id, member_ids=member_ids, instance_ids=instance_ids),
    )
    output.table(
        ["group", "member"], [(group_id, member) for member in removed], empty="The group has no members."
    )
