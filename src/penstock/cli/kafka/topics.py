"""`kafka-topics.sh`: create, list, describe, alter and delete topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.cli.failures import FAILED
from penstock.cli.kafka.flags import BOOTSTRAP_SERVER, COMMAND_CONFIG, BadFlags, Flag, Flags, Said, run_tool

if TYPE_CHECKING:
    from penstock.client.admin.configs import Config
    from penstock.client.admin.reassignment import Reassignment
    from penstock.client.admin.topics import PartitionDescription, TopicDescription, TopicsAdmin
    from penstock.client.cluster import TopicPartition

FLAGS = Flags(
    "This tool helps to create, delete, describe, or change a topic.",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Flag("list", "List all available topics."),
    Flag("create", "Create a new topic."),
    Flag("delete", "Delete a topic."),
    Flag("alter", "Alter the number of partitions."),
    Flag("describe", "List details for the given topics."),
    Flag("topic", "The topic; a regular expression but for --create.", "topic"),
    Flag("topic-id", "The id of the topic to describe.", "topic-id"),
    Flag("config", "A setting of the topic to create.", "name=value"),
    Flag("partitions", "How many partitions there are to be.", "Integer: # of partitions"),
    Flag("replication-factor", "How many replicas each partition has.", "Integer: replication factor"),
    Flag("replica-assignment", "Which brokers hold each partition.", "broker_id_for_part1_replica1 : ..."),
    Flag("under-replicated-partitions", "Only partitions with replicas that are not in sync."),
    Flag("unavailable-partitions", "Only partitions whose leader is not available."),
    Flag("under-min-isr-partitions", "Only partitions with fewer in sync than the configured minimum."),
    Flag("at-min-isr-partitions", "Only partitions with exactly the configured minimum in sync."),
    Flag("topics-with-overrides", "Only topics that have settings of their own."),
    Flag("if-exists", "Do nothing for a topic that does not exist."),
    Flag("if-not-exists", "Do nothing for a topic that exists already."),
    Flag("exclude-internal", "Leave out topics that brokers use for themselves."),
    Flag(
        "partition-size-limit-per-response",
        "How many partitions an answer may have; without effect.",
        "Integer",
    ),
    Flag("delete-config", "No longer supported.", "name", is_hidden=True),
)

ACTIONS = ("create", "list", "alter", "describe", "delete")
ONE_ACTION = "Command must include exactly one action: --list, --describe, --create, --alter or --delete"
SOME_PARTITIONS = (
    "under-replicated-partitions",
    "unavailable-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
)
COLLISION = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
    "collide. To avoid issues it is best to use either, but not both."
)


class CommandFailed(Exception):
    """The command cannot be done; told as Kafka's tool tells it."""


def run(arguments: Sequence[str]) -> int:
    return run_tool(FLAGS, arguments, _run)


def _run(said: Said) -> int:
    from penstock.cli.kafka.tools import chosen, message_of
    from penstock.client.errors import NoBrokersAvailable, PenstockError

    action = chosen(said, ACTIONS, ONE_ACTION)
    _check(said, action)
    work: dict[str, Callable[[Said], None]] = {
        "create": _create,
        "list": _list,
        "alter": _alter,
        "describe": _describe,
        "delete": _delete,
    }
    try:
        work[action](said)
    except NoBrokersAvailable:
        raise
    except (PenstockError, CommandFailed) as problem:
        print(f"Error while executing topic command : {message_of(problem)}")
        return FAILED
    return 0


def _check(said: Said, action: str) -> None:
    from penstock.cli.kafka.tools import forbid, require

    if action not in ("list", "describe"):
        require(said, "topic")
    if action == "alter":
        if said.has("config"):
            raise BadFlags(
                'Option "[alter]" can\'t be used with option "[config]" (the kafka-configs CLI can do it)'
            )
        require(said, "partitions")
    if action == "create":
        forbid(said, "replica-assignment", "partitions", "replication-factor")
    others = [other for other in ACTIONS if other not in ("alter", "create")]
    for flag in ("config", "partitions", "replica-assignment"):
        forbid(said, flag, *others)
    forbid(said, "replication-factor", *(other for other in ACTIONS if other != "create"))
    for flag in (*SOME_PARTITIONS, "topics-with-overrides"):
        forbid(said, flag, *(other for other in ACTIONS if other != "describe"))
    for flag in SOME_PARTITIONS:
        forbid(said, flag, "topics-with-overrides", *(other for other in SOME_PARTITIONS if other != flag))
    forbid(said, "if-exists", "create", "list")
    forbid(said, "if-not-exists", *(other for other in ACTIONS if other != "create"))
    forbid(said, "exclude-internal", "create", "alter", "delete")


def _create(said: Said) -> None:
    from penstock.cli.kafka.flags import parse_pairs
    from penstock.cli.kafka.tools import ask_cluster
    from penstock.client.admin.topics import TopicsAdmin
    from penstock.client.errors import TopicAlreadyExists
    from penstock.config.tables import TOPIC

    name, partitions, factor = (
        said.text("topic"),
        said.integer("partitions"),
        said.integer("replication-factor"),
    )
    replicas = _replicas(said)
    if any("=" not in text for text in said.all("config")):
        raise CommandFailed(
            'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
        )
    config = {key.strip(): value.strip() for key, value in parse_pairs(said.all("config")).items()}
    for unknown in config.keys() - TOPIC.keys():
        raise CommandFailed(f"Unknown topic config name: {unknown}")
    if "." in name or "_" in name:
        print(COLLISION)
    if factor is not None and not 1 <= factor <= 32767:
        raise CommandFailed("The replication factor must be between 1 and 32767 inclusive")
    if partitions is not None and partitions < 1:
        raise CommandFailed("The partitions must be greater than 0")
    try:
        ask_cluster(
            said,
            TopicsAdmin,
            lambda admin: admin.create_topic(name, partitions, factor, config, replicas=replicas),
        )
    except TopicAlreadyExists:
        if not said.has("if-not-exists"):
            raise
        return
    print(f"Created topic {name}.")


def _replicas(said: Said) -> list[list[int]] | None:
    """`1:2,2:3`: the brokers of each partition."""
    text = said.get("replica-assignment")
    if not text:
        return None
    try:
        replicas = [[int(broker) for broker in part.split(":")] for part in text.split(",")]
    except ValueError:
        raise CommandFailed(f'For input string: "{text}"') from None
    for index, brokers in enumerate(replicas):
        if len(set(brokers)) < len(brokers):
            twice = sorted({broker for broker in brokers if brokers.count(broker) > 1})
            raise CommandFailed(
                f"Partition replica lists may not contain duplicate entries: {','.join(map(str, twice))}"
            )
        if len(brokers) != len(replicas[0]):
            raise CommandFailed(f"Partition {index} has different replication factor: {brokers}")
    return replicas


def _list(said: Said) -> None:
    from penstock.cli.kafka.tools import ask_cluster, matching
    from penstock.client.admin.topics import TopicsAdmin

    include_internal = not said.has("exclude-internal")
    listed = ask_cluster(
        said, TopicsAdmin, lambda admin: admin.list_topics(include_internal=include_internal)
    )
    print("\n".join(matching((topic.name for topic in listed), said.get("topic"))))


def _alter(said: Said) -> None:
    from penstock.cli.kafka.tools import ask_cluster
    from penstock.client.admin.topics import NewPartitions, TopicsAdmin

    total = said.integer("partitions")
    assert total is not None
    replicas = _replicas(said)

    async def work(admin: TopicsAdmin) -> None:
        names = await _found(admin, said)
        wanted = {name: NewPartitions(total=total) for name in names}
        if replicas is not None:
            described = await admin.describe_topics(names)
            wanted = {
                name: NewPartitions(total=total, replicas=replicas[len(topic.partitions) :])
                for name, topic in described.items()
            }
        if wanted:
            await admin.create_partitions(wanted)

    ask_cluster(said, TopicsAdmin, work)


def _delete(said: Said) -> None:
    from penstock.cli.kafka.tools import ask_cluster
    from penstock.client.admin.topics import TopicsAdmin

    async def work(admin: TopicsAdmin) -> None:
        await admin.delete_topics(await _found(admin, said))

    ask_cluster(said, TopicsAdmin, work)


async def _found(admin: TopicsAdmin, said: Said) -> list[str]:
    """The topics that are meant."""
    from penstock.cli.kafka.tools import matching

    listed = await admin.list_topics(include_internal=not said.has("exclude-internal"))
    topic, topic_id = said.get("topic"), said.get("topic-id")
    if topic_id is not None:
        found = [each.name for each in listed if each.topic_id == topic_id]
        if not found and not said.has("if-exists"):
            raise CommandFailed(f"TopicId '{topic_id}' does not exist as expected")
        return found
    found = matching((each.name for each in listed), topic)
    if topic and not found and not said.has("if-exists"):
        raise CommandFailed(f"Topic '{topic}' does not exist as expected")
    return found


def _describe(said: Said) -> None:
    from penstock.cli.kafka.tools import ask_cluster
    from penstock.client.admin.configs import ConfigResource, ConfigsAdmin
    from penstock.client.admin.reassignment import ReassignmentAdmin
    from penstock.client.admin.topics import TopicsAdmin
    from penstock.client.cluster import TopicPartition
    from penstock.client.errors import AuthorizationError, UnsupportedVersion

    class Describing(TopicsAdmin, ConfigsAdmin, ReassignmentAdmin):
        pass

    async def work(admin: Describing) -> None:
        topics = await admin.describe_topics(await _found(admin, said))
        configs = await admin.describe_configs(map(ConfigResource.topic, topics))
        moving: Mapping[TopicPartition, Reassignment] = {}
        with suppress(UnsupportedVersion, AuthorizationError):  # what moves is told where it can be known
            moving = await admin.list_reassignments(
                TopicPartition(name, partition.index)
                for name, topic in topics.items()
                for partition in topic.partitions
            )
        for name, topic in topics.items():
            _print_topic(said, topic, configs[ConfigResource.topic(name)], moving)

    ask_cluster(said, Describing, work)


def _print_topic(
    said: Said, topic: TopicDescription, config: Config, moving: Mapping[TopicPartition, Reassignment]
) -> None:
    from penstock.client.cluster import TopicPartition

    own = [f"{entry.name}={entry.value}" for entry in config.values() if not entry.is_default]
    only_overridden = said.has("topics-with-overrides")
    is_some = any(said.has(flag) for flag in SOME_PARTITIONS)
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
        if not is_some or _is_meant(said, partition, move, minimum):
            print(_partition_line(topic.name, partition, move))


def _is_meant(said: Said, partition: PartitionDescription, move: Reassignment | None, minimum: int) -> bool:
    in_sync = len(partition.in_sync)
    if said.has("under-replicated-partitions"):
        return in_sync < len(partition.replicas) - (len(move.adding) if move is not None else 0)
    if said.has("unavailable-partitions"):
        return partition.leader is None
    if said.has("under-min-isr-partitions"):
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
