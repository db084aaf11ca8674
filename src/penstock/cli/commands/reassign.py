"""`penstock reassign`: move partitions to other brokers, and watch them move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from penstock.cli.connection import Connection
from penstock.cli.declare import Group, argument, option
from penstock.cli.output import Column, Output

if TYPE_CHECKING:
    from penstock.cli.reassignment import Assignment, Progress, ReassigningAdmin
    from penstock.client.cluster import TopicPartition

command = Group(
    help="Move partitions to other brokers, and watch them move.", kafka="kafka-reassign-partitions"
)

FILE = argument(metavar="PLAN.json", help="A plan as printed by `propose`; - reads stdin.", complete="file")


@command.command("list", examples=["penstock reassign list", "penstock reassign list --json"])
def list_moves(*, connection: Connection, output: Output) -> None:
    """List the partitions that are being reassigned."""
    from penstock.client.admin.reassignment import ReassignmentAdmin

    moving = connection.with_admin(ReassignmentAdmin, lambda admin: admin.list_reassignments())
    output.table(
        ["topic", "partition", "replicas", "adding", "removing"],
        [(*where, move.replicas, move.adding, move.removing) for where, move in sorted(moving.items())],
        empty="No partition is being reassigned.",
    )


@command.command(
    "propose",
    examples=["penstock reassign propose --brokers 1,2,3 orders payments > plan.json"],
)
def propose(
    topics: Annotated[
        list[str], argument(metavar="TOPIC...", help="Topics to distribute.", complete="topic")
    ],
    *,
    connection: Connection,
    brokers: Annotated[str, option("--brokers", metavar="1,2,3", help="The target brokers.")],
) -> None:
    """Print a plan that distributes topics over brokers. `start` executes it; `current` prints the old one."""
    from penstock.cli import reassignment

    wanted = _read_brokers(brokers)

    async def work(admin: ReassigningAdmin) -> Assignment:
        there = [broker for broker in (await admin.describe_cluster()).brokers if broker.id in wanted]
        if missing := sorted(set(wanted) - {broker.id for broker in there}):
            raise reassignment.BadPlan(f"the cluster has no broker {', '.join(map(str, missing))}")
        return reassignment.propose(await reassignment.current_replicas(admin, topics), there)

    print(reassignment.to_json(connection.with_admin(reassignment.ReassigningAdmin, work)))


@command.command("current", examples=["penstock reassign current orders > before.json"])
def current(
    topics: Annotated[list[str], argument(metavar="TOPIC...", help="Topics.", complete="topic")],
    *,
    connection: Connection,
) -> None:
    """Print the current assignment as a plan, for a rollback."""
    from penstock.cli import reassignment

    found = connection.with_admin(
        reassignment.ReassigningAdmin,
        lambda admin: reassignment.current_replicas(admin, topics),
    )
    print(reassignment.to_json(found))


def _read_brokers(text: str) -> list[int]:
    from penstock.cli.failures import Misuse

    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise Misuse(f"--brokers {text}: must be broker ids, such as 1,2,3") from None


@command.command(
    "start",
    examples=["penstock reassign start plan.json", "penstock reassign start plan.json --throttle 50000000"],
)
def start(
    file: Annotated[str, FILE],
    *,
    connection: Connection,
    output: Output,
    throttle: Annotated[
        int | None,
        option(
            "--throttle",
            metavar="BYTES",
            help="Limit replication to this many bytes a second; `status` removes the limit.",
            minimum=1,
        ),
    ] = None,
) -> None:
    """Start the reassignment of a plan."""
    from penstock.cli import reassignment

    plan = reassignment.read_plan(_read(file))

    async def work(admin: ReassigningAdmin) -> None:
        if throttle is not None:
            there = await reassignment.current_replicas(admin, sorted({each.topic for each in plan.replicas}))
            await reassignment.set_throttle(admin, plan.replicas, there, throttle)
        await admin.reassign_partitions(plan.replicas)
        if plan.directories:
            await admin.alter_replica_log_dirs(plan.directories)

    connection.with_admin(reassignment.ReassigningAdmin, work)
    output.table(
        ["topic", "partition", "target"],
        [(*partition, brokers) for partition, brokers in sorted(plan.replicas.items())],
    )


@command.command("status", examples=["penstock reassign status plan.json --json"])
def status(file: Annotated[str, FILE], *, connection: Connection, output: Output) -> None:
    """Show the progress of a plan. When all partitions have moved, throttles are removed."""
    from penstock.cli import reassignment

    plan = reassignment.read_plan(_read(file))

    async def work(admin: ReassigningAdmin) -> dict[TopicPartition, Progress]:
        progress, moving = await reassignment.progress_of(admin, plan.replicas)
        if not moving:
            brokers = {broker.id for broker in (await admin.describe_cluster()).brokers}
            topics = sorted({where.topic for where, how in progress.items() if how.replicas})
            await reassignment.clear_throttles(admin, sorted(brokers), topics)
        return progress

    found = connection.with_admin(reassignment.ReassigningAdmin, work)
    output.table(
        [
            "topic",
            "partition",
            Column("is_moving", "moving"),
            Column("is_done", "done"),
            "replicas",
            "target",
        ],
        [
            (*where, how.is_moving, how.is_done, how.replicas, how.target)
            for where, how in sorted(found.items())
        ],
    )


@command.command("cancel", examples=["penstock reassign cancel plan.json"])
def cancel(file: Annotated[str, FILE], *, connection: Connection, output: Output) -> None:
    """Cancel the reassignments of a plan that are still in progress."""
    from penstock.cli import reassignment

    plan = reassignment.read_plan(_read(file))

    async def work(admin: ReassigningAdmin) -> list[TopicPartition]:
        moving = await admin.list_reassignments(plan.replicas)
        if moving:
            await admin.reassign_partitions(dict.fromkeys(moving))
        return sorted(moving)

    cancelled = connection.with_admin(reassignment.ReassigningAdmin, work)
    output.table(["topic", "partition"], cancelled, empty="No partition of the plan is being reassigned.")


def _read(file: str) -> str:
    import sys

    if file == "-":
        return sys.stdin.read()
    with open(file, encoding="utf-8") as stream:
        return stream.read()
