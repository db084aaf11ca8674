"""`kafka-leader-election.sh`: elect the leaders of partitions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.cli.flags import UsageError
from penstock.cli.kafka.tool import BOOTSTRAP_SERVER, COMMAND_CONFIG, Options, Tool, also_named, flag

if TYPE_CHECKING:
    from penstock.client.cluster import TopicPartition

TOOL = Tool(
    "This tool attempts to elect a new leader for a set of topic partitions. The type of elections supported are "
    "preferred replicas and unclean replicas.",
    BOOTSTRAP_SERVER,
    also_named(COMMAND_CONFIG, "--admin.config"),
    flag("election-type", "preferred or unclean.", "election type"),
    flag("path-to-json-file", "The JSON file with the partitions.", "Path to JSON file"),
    flag("topic", "The topic of one partition.", "topic name"),
    flag("partition", "The partition id.", "partition id"),
    flag("all-topic-partitions", "All partitions that need an election."),
)


def run(options: Options) -> int:
    from penstock.cli.kafka.admin import fail, message_of, with_admin
    from penstock.client.admin.reassignment import ElectionType, ReassignmentAdmin
    from penstock.client.errors import ElectionNotNeeded, ItemsFailed, PenstockError

    if not options.has("election-type"):
        return fail("Missing required option(s): election-type")
    try:
        election = ElectionType[options.text("election-type").upper()]
    except KeyError:
        raise UsageError(
            f"Invalid election type {options.text('election-type')}: preferred or unclean"
        ) from None
    ways = [flag for flag in ("all-topic-partitions", "topic", "path-to-json-file") if options.has(flag)]
    if not ways:
        return fail(
            "One and only one of the following options is required: topic, all-topic-partitions, path-to-json-file"
        )
    if options.has("topic") != options.has("partition"):
        missing = "partition" if options.has("topic") else "topic"
        return fail(f"Missing required option(s): {missing}")
    wanted = _partitions(options)
    done: dict[TopicPartition, None] = {}
    failures: dict[TopicPartition, PenstockError] = {}
    try:
        done = with_admin(
            options, ReassignmentAdmin, lambda admin: admin.elect_leaders(wanted, election=election)
        )
    except ItemsFailed as failed:
        done, failures = dict(failed.results), dict(failed.failures)
    already = sorted(where for where, error in failures.items() if isinstance(error, ElectionNotNeeded))
    others = {where: error for where, error in sorted(failures.items()) if where not in already}
    if done:
        print(
            f"Successfully completed leader election ({election.name}) for partitions "
            f"{', '.join(map(str, sorted(done)))}"
        )
    if already:
        print(f"Valid replica already elected for partitions {', '.join(map(str, already))}")
    for where, error in others.items():
        print(
            f"Error completing leader election ({election.name}) for partition: {where}: {message_of(error)}"
        )
    return fail(f"{len(others)} replica(s) could not be elected") if others else 0


def _partitions(options: Options) -> list[TopicPartition] | None:
    from penstock.client.cluster import TopicPartition

    if options.has("all-topic-partitions"):
        return None
    if options.has("topic"):
        return [TopicPartition(options.text("topic"), options.number("partition"))]
    path = options.text("path-to-json-file")
    with open(path, encoding="utf-8") as file:
        try:
            read = json.load(file)
            return [TopicPartition(str(part["topic"]), int(part["partition"])) for part in read["partitions"]]
        except (ValueError, KeyError, TypeError):
            raise UsageError(f"{path} is not a JSON list of partitions") from None
