"""`penstock topics`: create, list, describe, alter and delete topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from penstock.cli.connection import Connection
from penstock.cli.declare import Argument, Group, Option
from penstock.cli.output import Column, Output

if TYPE_CHECKING:
    from penstock.client.admin.topics import TopicDescription

command = Group(help="Create, list, describe, alter and delete topics.", kafka="kafka-topics")

NAMES = Argument(metavar="TOPIC...", help="Names of topics.", complete="topic")


@command.command(
    "list", examples=["penstock topics list", "penstock topics list 'orders-*' --internal --json"]
)
def list_topics(
    pattern: Annotated[
        str | None, Argument(help="Only topics whose names match, with * and ? as in a shell.")
    ] = None,
    *,
    connection: Connection,
    output: Output,
    internal: Annotated[
        bool, Option("--internal", help="Those that brokers use for themselves too.")
    ] = False,
) -> None:
    """Tell which topics there are."""
    from penstock.cli.asking import ask
    from penstock.client.admin.topics import TopicsAdmin

    listed = ask(
        connection.settings(), TopicsAdmin, lambda admin: admin.list_topics(include_internal=internal)
    )
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
        int | None, Option("--partitions", "-p", help="How many; the cluster's default otherwise.", minimum=1)
    ] = None,
    replication_factor: Annotated[
        int | None,
        Option(
            "--replication-factor", "-r", help="Copies of each; the cluster's default otherwise.", minimum=1
        ),
    ] = None,
    config: Annotated[
        tuple[str, ...],
        Option(
            "--set",
            "-s",
            aliases=("--config", "-c"),
            metavar="KEY=VALUE",
            help="A setting of the topic. May be repeated.",
        ),
    ] = (),
    if_not_exists: Annotated[
        bool, Option("--if-not-exists", help="Leave topics as they are that exist already.")
    ] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Tell what would come of it, and make nothing.")
    ] = False,
) -> None:
    """Create topics, all with the same settings."""
    from penstock.cli.asking import ask, read_pairs
    from penstock.cli.compaction import note_compaction
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

    rows = ask(connection.settings(), TopicsAdmin, work)
    note_compaction(settings)
    output.table(
        ["topic", "partitions", "replicas", "id"], rows, empty="All of them exist already; nothing was done."
    )


@command.command(
    "describe", examples=["penstock topics describe orders", "penstock topics describe orders --json"]
)
def describe(
    names: Annotated[tuple[str, ...], NAMES] = (),
    *,
    connection: Connection,
    output: Output,
    unavailable: Annotated[
        bool, Option("--unavailable", help="Only partitions that have no leader.")
    ] = False,
    under_replicated: Annotated[
        bool, Option("--under-replicated", help="Only partitions with replicas that are not in sync.")
    ] = False,
) -> None:
    """Tell where the partitions of topics are; of all topics where none is named."""
    from penstock.cli.asking import ask
    from penstock.client.admin.topics import TopicsAdmin

    async def work(admin: TopicsAdmin) -> dict[str, TopicDescription]:
        wanted = names or [topic.name for topic in await admin.list_topics()]
        return await admin.describe_topics(wanted) if wanted else {}

    described = ask(connection.settings(), TopicsAdmin, work)
    output.table(
        ["topic", "partition", "leader", "replicas", Column("in_sync", "in sync"), "offline", "epoch"],
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
        empty="There are no such partitions.",
    )


@command.command("alter", examples=["penstock topics alter orders --partitions 12"])
def alter(
    names: Annotated[list[str], NAMES],
    *,
    connection: Connection,
    output: Output,
    partitions: Annotated[
        int, Option("--partitions", "-p", help="How many there are to be in all.", minimum=1)
    ],
    dry_run: Annotated[bool, Option("--dry-run", help="Only tell whether it could be done.")] = False,
) -> None:
    """Give topics more partitions. Records with the same key may go to another partition from then on.

    Settings of topics are altered by `penstock configs`.
    """
    from penstock.cli.asking import ask
    from penstock.client.admin.topics import TopicsAdmin

    ask(
        connection.settings(),
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
    if_exists: Annotated[bool, Option("--if-exists", help="Pass over topics that do not exist.")] = False,
) -> None:
    """Delete topics with all their records. This cannot be undone."""
    from penstock.cli.asking import ask
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

    deleted = ask(connection.settings(), TopicsAdmin, work)
    output.result(
        f"deleted {', '.join(deleted)}" if deleted else "there was nothing to delete",
        [{"topic": name} for name in deleted],
    )
