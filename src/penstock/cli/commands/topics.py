"""`penstock topics`: create, list, describe, alter and delete topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from penstock.cli.connection import Connection
from penstock.cli.declare import Group, argument, option
from penstock.cli.output import Output

if TYPE_CHECKING:
    from penstock.client.admin.topics import TopicDescription

command = Group(help="Create, list, describe, alter and delete topics.", kafka="kafka-topics")

NAMES = argument(metavar="TOPIC...", help="Names of topics.", complete="topic")


@command.command(
    "list", examples=["penstock topics list", "penstock topics list 'orders-*' --internal --json"]
)
def list_topics(
    pattern: Annotated[
        str | None, argument(help="Only topics whose names match, with * and ? as in a shell.")
    ] = None,
    *,
    connection: Connection,
    output: Output,
    internal: Annotated[bool, option("--internal", help="Include internal topics.")] = False,
) -> None:
    """List topics."""
    from penstock.client.admin.topics import TopicsAdmin

    listed = connection.with_admin(TopicsAdmin, lambda admin: admin.list_topics(include_internal=internal))
    if pattern is not None:
        from fnmatch import fnmatchcase

        listed = [topic for topic in listed if fnmatchcase(topic.name, pattern)]
    output.table(
        ["topic", "partitions", "id", "internal"],
        [(topic.name, topic.partitions, topic.topic_id, topic.is_internal) for topic in listed],
        empty="There are no topics." if pattern is None else f"No topic matches {pattern}.",
    )


@command.command(
    "create",
    examples=[
        "penstock topics create orders --partitions 6",
        "penstock topics create orders payments -p 3 --set retention.ms=86400000",
    ],
)
def create(
    names: Annotated[list[str], NAMES],
    *,
    connection: Connection,
    output: Output,
    partitions: Annotated[
        int | None,
        option(
            "--partitions",
            "-p",
            help="Number of partitions; by default the cluster's num.partitions.",
            minimum=1,
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        option(
            "--replication-factor",
            "-r",
            help="Replicas of each partition; by default the cluster's setting.",
            minimum=1,
        ),
    ] = None,
    config: Annotated[
        tuple[str, ...],
        option(
            "--set",
            "-s",
            aliases=("--config", "-c"),
            metavar="KEY=VALUE",
            help="A topic config. May be repeated.",
        ),
    ] = (),
    if_not_exists: Annotated[bool, option("--if-not-exists", help="Skip topics that already exist.")] = False,
    dry_run: Annotated[bool, option("--dry-run", help="Validate only; create nothing.")] = False,
) -> None:
    """Create topics, all with the same settings."""
    from penstock.cli.values import read_pairs
    from penstock.client.admin.topics import NewTopic, TopicsAdmin
    from penstock.client.errors import ItemsFailed, TopicAlreadyExists

    settings = read_pairs(config, option="--set")
    topics = [
        NewTopic(name=name, partitions=partitions, replication_factor=replication_factor, config=settings)
        for name in names
    ]

    async def work(admin: TopicsAdmin) -> list[tuple[object, ...]]:
        try:
            created = await admin.create_topics(topics, validate_only=dry_run)
        except ItemsFailed as failed:
            others = [
                error
                for error in failed.exceptions
                if not (if_not_exists and isinstance(error, TopicAlreadyExists))
            ]
            if others:
                raise
            created = dict(failed.results)
        return [
            (name, topic.partitions, topic.replication_factor, topic.topic_id)
            for name, topic in created.items()
        ]

    rows = connection.with_admin(TopicsAdmin, work)
    output.table(["topic", "partitions", "replicas", "id"], rows, empty="All topics already exist.")


@command.command(
    "describe", examples=["penstock topics describe orders", "penstock topics describe orders --json"]
)
def describe(
    names: Annotated[tuple[str, ...], NAMES] = (),
    *,
    connection: Connection,
    output: Output,
    unavailable: Annotated[
        bool, option("--unavailable", help="Only partitions that have no leader.")
    ] = False,
    under_replicated: Annotated[
        bool, option("--under-replicated", help="Only partitions with replicas that are not in sync.")
    ] = False,
) -> None:
    """Show leader, replicas and in-sync replicas of each partition; by default of all topics."""
    from penstock.client.admin.topics import TopicsAdmin

    async def work(admin: TopicsAdmin) -> dict[str, TopicDescription]:
        wanted = names or [topic.name for topic in await admin.list_topics()]
        return await admin.describe_topics(wanted) if wanted else {}

    described = connection.with_admin(TopicsAdmin, work)
    output.table(
        ["topic", "partition", "leader", "replicas", "in_sync", "offline", "epoch"],
        [
            (
                topic.name,
                partition.index,
                partition.leader,
                partition.replicas,
                partition.in_sync,
                partition.offline,
                partition.leader_epoch,
            )
            for topic in described.values()
            for partition in topic.partitions
            if not unavailable or partition.leader is None
            if not under_replicated or len(partition.in_sync) < len(partition.replicas)
        ],
        empty="No partition matches.",
    )


@command.command("alter", examples=["penstock topics alter orders --partitions 12"])
def alter(
    names: Annotated[list[str], NAMES],
    *,
    connection: Connection,
    output: Output,
    partitions: Annotated[
        int, option("--partitions", "-p", help="The new total number of partitions.", minimum=1)
    ],
    dry_run: Annotated[bool, option("--dry-run", help="Validate only; change nothing.")] = False,
) -> None:
    """Add partitions to topics. Records with the same key may then go to another partition.

    `penstock configs alter` changes the configs of a topic.
    """
    from penstock.client.admin.topics import TopicsAdmin

    connection.with_admin(
        TopicsAdmin,
        lambda admin: admin.create_partitions(dict.fromkeys(names, partitions), validate_only=dry_run),
    )
    could = "could have" if dry_run else "now have" if len(names) > 1 else "now has"
    output.result(
        f"{', '.join(names)} {could} {partitions} partitions",
        [{"topic": name, "partitions": partitions, "is_done": not dry_run} for name in names],
    )


@command.command(
    "delete", examples=["penstock topics delete orders", "penstock topics delete a b --if-exists"]
)
def delete(
    names: Annotated[list[str], NAMES],
    *,
    connection: Connection,
    output: Output,
    if_exists: Annotated[bool, option("--if-exists", help="Skip topics that do not exist.")] = False,
) -> None:
    """Delete topics with all their records. This cannot be undone."""
    from penstock.client.admin.topics import TopicsAdmin
    from penstock.client.errors import ItemsFailed, UnknownTopicOrPartition

    async def work(admin: TopicsAdmin) -> list[str]:
        try:
            return list(await admin.delete_topics(names))
        except ItemsFailed as failed:
            if not if_exists or any(
                not isinstance(error, UnknownTopicOrPartition) for error in failed.exceptions
            ):
                raise
            return list(failed.results)

    deleted = connection.with_admin(TopicsAdmin, work)
    output.result(
        f"deleted {', '.join(deleted)}" if deleted else "nothing to delete",
        [{"topic": name} for name in deleted],
    )
