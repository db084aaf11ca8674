"""`penstock reassign`: move partitions to other brokers, and watch them move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from penstock.cli.connection import Connection
from penstock.cli.declare import Argument, Group, Option
from penstock.cli.output import Column, Output

if TYPE_CHECKING:
    from penstock.cli.reassigning import Assignment, Progress, ReassigningAdmin
    from penstock.client.cluster import TopicPartition

command = Group(
    help="Move partitions to other brokers, and watch them move.", kafka="kafka-reassign-partitions"
)

FILE = Argument(metavar="PLAN.json", help="A plan, as `propose` prints it; - reads stdin.", complete="file")
ALL_MOVES = "No partition is moving."


@command.command("list", examples=["penstock reassign list", "penstock reassign list --json"])
def list_moves(*, connection: Connection, output: Output) -> None:
    """Tell which partitions are moving."""
    from penstock.cli.asking import ask
    from penstock.client.admin.reassignment import ReassignmentAdmin

    moving = ask(connection.settings(), ReassignmentAdmin, lambda admin: admin.list_reassignments())
    output.table(
        ["topic", "partition", "replicas", "adding", "removing"],
        [(*where, move.replicas, move.adding, move.removing) for where, move in sorted(moving.items())],
        empty=ALL_MOVES,
    )


@command.command(
    "propose",
    examples=["penstock reassign propose --brokers 1,2,3 orders payments > plan.json"],
)
def propose(
    topics: Annotated[list[str], Argument(metavar="TOPIC...", help="Topics to spread.", complete="topic")],
    *,
    connection: Connection,
    brokers: Annotated[
        str, Option("--brokers", metavar="1,2,3", help="The brokers that they are to lie on.")
    ],
) -> None:
    """Print a plan that spreads topics over some brokers. `start` carries it out; keep the old one by `current`."""
    from penstock.cli import reassigning
    from penstock.cli.asking import ask

    wanted = _read_brokers(brokers)

    async def work(admin: ReassigningAdmin) -> Assignment:
        there = [broker for broker in (await admin.describe_cluster()).brokers if broker.id in wanted]
        if missing := sorted(set(wanted) - {broker.id for broker in there}):
            raise reassigning.BadPlan(f"the cluster has no broker {', '.join(map(str, missing))}")
        return reassigning.propose(await reassigning.current_replicas(admin, topics), there)

    print(reassigning.to_json(ask(connection.settings(), reassigning.ReassigningAdmin, work)))


@command.command("current", examples=["penstock reassign current orders > before.json"])
def current(
    topics: Annotated[list[str], Argument(metavar="TOPIC...", help="Topics.", complete="topic")],
    *,
    connection: Connection,
) -> None:
    """Print where topics lie now, as a plan: to come back to it."""
    from penstock.cli import reassigning
    from penstock.cli.asking import ask

    found = ask(
        connection.settings(),
        reassigning.ReassigningAdmin,
        lambda admin: reassigning.current_replicas(admin, topics),
    )
    print(reassigning.to_json(found))


def _read_brokers(text: str) -> list[int]:
    from penstock.cli.failures import Misuse

    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise Misuse(f"--brokers {text}: must be numbers of brokers, such as 1,2,3") from None


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
        Option(
            "--throttle", metavar="BYTES", help="Copy no more a second; `status` takes it away.", minimum=1
        ),
    ] = None,
) -> None:
    """Begin to move partitions as a plan says."""
    from penstock.cli import reassigning
    from penstock.cli.asking import ask

    plan = reassigning.read_plan(_read(file))

    async def work(admin: ReassigningAdmin) -> None:
        if throttle is not None:
            there = await reassigning.current_replicas(admin, sorted({each.topic for each in plan.replicas}))
            await reassigning.set_throttle(admin, plan.replicas, there, throttle)
        await admin.reassign_partitions(plan.replicas)
        if plan.directories:
            await admin.alter_replica_log_dirs(plan.directories)

    ask(connection.settings(), reassigning.ReassigningAdmin, work)
    output.table(
        ["topic", "partition", "target"],
        [(*partition, brokers) for partition, brokers in sorted(plan.replicas.items())],
    )


@command.command("status", examples=["penstock reassign status plan.json --json"])
def status(file: Annotated[str, FILE], *, connection: Connection, output: Output) -> None:
    """Tell how far a plan has come; when nothing moves any more, throttles are taken away."""
    from penstock.cli import reassigning
    from penstock.cli.asking import ask

    plan = reassigning.read_plan(_read(file))

    async def work(admin: ReassigningAdmin) -> dict[TopicPartition, Progress]:
        progress, moving = await reassigning.progress_of(admin, plan.replicas)
        if not moving:
            brokers = {broker.id for broker in (await admin.describe_cluster()).brokers}
            topics = sorted({where.topic for where, how in progress.items() if how.replicas})
            await reassigning.clear_throttles(admin, sorted(brokers), topics)
        return progress

    found = ask(connection.settings(), reassigning.ReassigningAdmin, work)
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
    """Stop what moves of a plan, and go back to where it was."""
    from penstock.cli import reassigning
    from penstock.cli.asking import ask

    plan = reassigning.read_plan(_read(file))

    async def work(admin: ReassigningAdmin) -> list[TopicPartition]:
        moving = await admin.list_reassignments(plan.replicas)
        if moving:
            await admin.reassign_partitions(dict.fromkeys(moving))
        return sorted(moving)

    cancelled = ask(connection.settings(), reassigning.ReassigningAdmin, work)
    output.table(["topic", "partition"], cancelled, empty="None of them is moving.")


def _read(file: str) -> str:
    import sys

    if file == "-":
        return sys.stdin.read()
    with open(file, encoding="utf-8") as stream:
        return stream.read()
