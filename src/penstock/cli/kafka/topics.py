"""`kafka-topics.sh`: create, list, describe, alter and delete topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.cli.failures import FAILED
from penstock.cli.flags import Flag, OneOf, UsageError
from penstock.cli.kafka.tool import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    KAFKA,
    CommandFailed,
    Options,
    Tool,
    flag,
)

if TYPE_CHECKING:
    from penstock.client.admin.configs import Config
    from penstock.client.admin.reassignment import Reassignment
    from penstock.client.admin.topics import PartitionDescription, TopicDescription, TopicsAdmin
    from penstock.client.cluster import TopicPartition

ACTIONS = ("create", "list", "alter", "describe", "delete")
PARTITION_FILTERS = (
    "under-replicated-partitions",
    "unavailable-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
)


def all_but(*actions: str) -> tuple[str, ...]:
    """All actions except these."""
    return tuple(action for action in ACTIONS if action not in actions)


def partition_filter(name: str, help: str) -> Flag:
    others = (other for other in PARTITION_FILTERS if other != name)
    return flag(name, help, forbids=(*all_but("describe"), "topics-with-overrides", *others))


TOOL = Tool(
    "This tool helps to create, delete, describe, or change a topic.",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    flag("list", "List all available topics."),
    flag("create", "Create a new topic.", needs=("topic",)),
    flag("delete", "Delete a topic.", needs=("topic",)),
    flag(
        "alter",
        "Alter the number of partitions.",
        needs=("topic", "partitions"),
        forbids={
            "config": 'Option "[alter]" can\'t be used with option "[config]" (the kafka-configs CLI can do it)'
        },
    ),
    flag("describe", "List details for the given topics."),
    flag("topic", "The topic; a regular expression, except with --create.", "topic"),
    flag("topic-id", "The id of the topic to describe.", "topic-id"),
    flag("config", "A config of the topic to create.", "name=value", forbids=all_but("alter", "create")),
    flag(
        "partitions",
        "The number of partitions.",
        "Integer: # of partitions",
        forbids=all_but("alter", "create"),
    ),
    flag(
        "replication-factor",
        "The number of replicas of each partition.",
        "Integer: replication factor",
        forbids=all_but("create"),
    ),
    flag(
        "replica-assignment",
        "The brokers of each partition.",
        "broker_id_for_part1_replica1 : ...",
        forbids=all_but("alter", "create"),
    ),
    partition_filter("under-replicated-partitions", "Only partitions with replicas that are not in sync."),
    partition_filter("unavailable-partitions", "Only partitions whose leader is not available."),
    partition_filter(
        "under-min-isr-partitions", "Only partitions with fewer in-sync replicas than the minimum."
    ),
    partition_filter(
        "at-min-isr-partitions", "Only partitions with exactly the minimum of in-sync replicas."
    ),
    flag("topics-with-overrides", "Only topics that override default configs.", forbids=all_but("describe")),
    flag("if-exists", "Do nothing if the topic does not exist.", forbids=("create", "list")),
    flag("if-not-exists", "Do nothing if the topic already exists.", forbids=all_but("create")),
    flag("exclude-internal", "Exclude internal topics.", forbids=("create", "alter", "delete")),
    flag(
        "partition-size-limit-per-response",
        "Without effect.",
        "Integer",
    ),
    flag("delete-config", "No longer supported.", "name", is_hidden=True),
    one_of=[
        OneOf(
            ACTIONS,
            "Command must include exactly one action: --list, --describe, --create, --alter or --delete",
        )
    ],
)

COLLISION = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
    "collide. To avoid issues it is best to use either, but not both."
)


def run(options: Options) -> int:
    from penstock.cli.kafka.admin import message_of
    from penstock.client.errors import NoBrokersAvailable, PenstockError

    action = options.given(ACTIONS)
    if action == "create" and options.has("replica-assignment"):
        for name in ("partitions", "replication-factor"):
            if options.has(name):
                raise UsageError(KAFKA.forbidden.format(flag_key="replica-assignment", key=name))
    work: dict[str, Callable[[Options], None]] = {
        "create": _create,
        "list": _list,
        "alter": _alter,
        "describe": _describe,
        "delete": _delete,
    }
    try:
        work[action](options)
    except NoBrokersAvailable:
        raise
    except (PenstockError, CommandFailed) as problem:
        print(f"Error while executing topic command : {message_of(problem)}")
        return FAILED
    return 0


def _create(options: Options) -> None:
    from penstock.cli.kafka.admin import with_admin
    from penstock.cli.kafka.tool import parse_pairs
    from penstock.client.admin.topics import TopicsAdmin
    from penstock.client.errors import TopicAlreadyExists
    from penstock.config.tables import TOPIC

    name, partitions, factor = (
        options.text("topic"),
        options.integer("partitions"),
        options.integer("replication-factor"),
    )
    replicas = _replicas(options)
    if any("=" not in text for text in options.all("config")):
        raise CommandFailed(
            'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
        )
    config = {key.strip(): value.strip() for key, value in parse_pairs(options.all("config")).items()}
    for unknown in config.keys() - TOPIC.keys():
        raise CommandFailed(f"Unknown topic config name: {unknown}")
    if "." in name or "_" in name:
        print(COLLISION)
    if factor is not None and not 1 <= factor <= 32767:
        raise CommandFailed("The replication factor must be between 1 and 32767 inclusive")
    if partitions is not None and partitions < 1:
        raise CommandFailed("The partitions must be greater than 0")
    try:
        with_admin(
            options,
            TopicsAdmin,
            lambda admin: admin.create_topic(name, partitions, factor, config, replicas=replicas),
        )
    except TopicAlreadyExists:
        if not options.has("if-not-exists"):
            raise
        return
    print(f"Created topic {name}.")


def _replicas(options: Options) -> list[list[int]] | None:
    """`1:2,2:3`: the brokers of each partition."""
    text = options.get("replica-assignment")
    if not text:
        return None
    try:
        replicas = [[int(broker) for broker in part.split(":")] for part in text.split(",")]
    except ValueError:
        raise CommandFailed(f'For input string: "{text}"') from None
    for index, brokers in enumerate(replicas):
        if len(set(brokers)) < len(brokers):
            duplicates = sorted({broker for broker in brokers if brokers.count(broker) > 1})
            raise CommandFailed(
                f"Partition replica lists may not contain duplicate entries: {','.join(map(str, duplicates))}"
            )
        if len(brokers) != len(replicas[0]):
            raise CommandFailed(f"Partition {index} has different replication factor: {brokers}")
    return replicas


def _list(options: Options) -> None:
    from penstock.cli.kafka.admin import matching, with_admin
    from penstock.client.admin.topics import TopicsAdmin

    include_internal = not options.has("exclude-internal")
    listed = with_admin(
        options, TopicsAdmin, lambda admin: admin.list_topics(include_internal=include_internal)
    )
    print("\n".join(matching((topic.name for topic in listed), options.get("topic"))))


def _alter(options: Options) -> None:
    from penstock.cli.kafka.admin import with_admin
    from penstock.client.admin.topics import NewPartitions, TopicsAdmin

    total = options.integer("partitions")
    assert total is not None
    replicas = _replicas(options)

    async def work(admin: TopicsAdmin) -> None:
        names = await _select_topics(admin, options)
        wanted = {name: NewPartitions(total=total) for name in names}
        if replicas is not None:
            described = await admin.describe_topics(names)
            wanted = {
                name: NewPartitions(total=total, replicas=replicas[len(topic.partitions) :])
                for name, topic in described.items()
            }
        if wanted:
            await admin.create_partitions(wanted)

    with_admin(options, TopicsAdmin, work)


def _delete(options: Options) -> None:
    from penstock.cli.kafka.admin import with_admin
    from penstock.client.admin.topics import TopicsAdmin

    async def work(admin: TopicsAdmin) -> None:
        await admin.delete_topics(await _select_topics(admin, options))

    with_admin(options, TopicsAdmin, work)


async def _select_topics(admin: TopicsAdmin, options: Options) -> list[str]:
    """The selected topics."""
    from penstock.cli.kafka.admin import matching

    listed = await admin.list_topics(include_internal=not options.has("exclude-internal"))
    topic, topic_id = options.get("topic"), options.get("topic-id")
    if topic_id is not None:
        found = [each.name for each in listed if each.topic_id == topic_id]
        if not found and not options.has("if-exists"):
            raise CommandFailed(f"TopicId '{topic_id}' does not exist as expected")
        return found
    found = matching((each.name for each in listed), topic)
    if topic and not found and not options.has("if-exists"):
        raise CommandFailed(f"Topic '{topic}' does not exist as expected")
    return found


def _describe(options: Options) -> None:
    from penstock.cli.kafka.admin import with_admin
    from penstock.client.admin.configs import ConfigResource, ConfigsAdmin
    from penstock.client.admin.reassignment import ReassignmentAdmin
    from penstock.client.admin.topics import TopicsAdmin
    from penstock.client.cluster import TopicPartition
    from penstock.client.errors import AuthorizationError, UnsupportedVersion

    class TopicToolAdmin(TopicsAdmin, ConfigsAdmin, ReassignmentAdmin):
        pass

    async def work(admin: TopicToolAdmin) -> None:
        topics = await admin.describe_topics(await _select_topics(admin, options))
        configs = await admin.describe_configs(map(ConfigResource.topic, topics))
        moving: Mapping[TopicPartition, Reassignment] = {}
        with suppress(UnsupportedVersion, AuthorizationError):  # reassignments are optional
            moving = await admin.list_reassignments(
                TopicPartition(name, partition.index)
                for name, topic in topics.items()
                for partition in topic.partitions
            )
        for name, topic in topics.items():
            _print_topic(options, topic, configs[ConfigResource.topic(name)], moving)

    with_admin(options, TopicToolAdmin, work)


def _print_topic(
    options: Options, topic: TopicDescription, config: Config, moving: Mapping[TopicPartition, Reassignment]
) -> None:
    from penstock.client.cluster import TopicPartition

    own = [f"{entry.name}={entry.value}" for entry in config.values() if not entry.is_default]
    only_overridden = options.has("topics-with-overrides")
    is_some = any(options.has(flag) for flag in PARTITION_FILTERS)
    if not is_some and (own or not only_overridden):
        move = moving.get(TopicPartition(topic.name, 0))
        factor = topic.replication_factor - (len(move.adding) if move is not None else 0)
        topic_id = f"\tTopicId: {topic.topic_id}" if topic.topic_id is not None else ""
        print(
            f"Topic: {topic.name}{topic_id}\tPartitionCount: {len(topic.partitions)}"
            f"\tReplicationFactor: {factor}\tConfigs: {','.join(own)}"
        )
    if only_overridden:
        return
    minimum = int((config["min.insync.replicas"].value if "min.insync.replicas" in config else None) or 1)
    for partition in topic.partitions:
        move = moving.get(TopicPartition(topic.name, partition.index))
        if not is_some or _is_selected(options, partition, move, minimum):
            print(_partition_line(topic.name, partition, move))


def _is_selected(
    options: Options, partition: PartitionDescription, move: Reassignment | None, minimum: int
) -> bool:
    in_sync = len(partition.in_sync)
    if options.has("under-replicated-partitions"):
        return in_sync < len(partition.replicas) - (len(move.adding) if move is not None else 0)
    if options.has("unavailable-partitions"):
        return partition.leader is None
    if options.has("under-min-isr-partitions"):
        return partition.leader is None or in_sync < minimum
    return in_sync == minimum


def _partition_line(topic: str, partition: PartitionDescription, move: Reassignment | None) -> str:
    leader = "none" if partition.leader is None else partition.leader
    fields = [
        f"\tTopic: {topic}",
        f"Partition: {partition.index}",
        f"Leader: {leader}",
        f"Replicas: {_ids(partition.replicas)}",
        f"Isr: {_ids(partition.in_sync)}",
    ]
    if move is not None:
        fields += [f"Adding Replicas: {_ids(move.adding)}", f"Removing Replicas: {_ids(move.removing)}"]
    fields += [
        f"Elr: {_ids(partition.eligible_leaders)}",
        f"LastKnownElr: {_ids(partition.last_known_eligible)}",
    ]
    return "\t".join(fields)


def _ids(brokers: Sequence[int] | None) -> str:
    return "N/A" if brokers is None else ",".join(map(str, brokers))
