"""`kafka-leader-election.sh`: elect the leaders of partitions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.cli.kafka.flags import BOOTSTRAP_SERVER, COMMAND_CONFIG, BadFlags, Flag, Flags, Said, run_tool

if TYPE_CHECKING:
    from penstock.client.cluster import TopicPartition

FLAGS = Flags(
    "This tool attempts to elect a new leader for a set of topic partitions. The type of elections supported are "
    "preferred replicas and unclean replicas.",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG._replace(shorts=("--admin.config",)),
    Flag("election-type", "preferred or unclean.", "election type"),
    Flag("path-to-json-file", "The JSON file with the partitions.", "Path to JSON file"),
    Flag("topic", "The topic of one partition.", "topic name"),
    Flag("partition", "The number of the partition.", "partition id"),
    Flag("all-topic-partitions", "Wherever an election is needed."),
)


def run(arguments: Sequence[str]) -> int:
    return run_tool(FLAGS, arguments, _run)


def _run(said: Said) -> int:
    from penstock.cli.kafka.tools import ask_cluster, fail, message_of
    from penstock.client.admin.reassignment import ElectionType, ReassignmentAdmin
    from penstock.client.errors import ElectionNotNeeded, ItemsFailed, PenstockError

    if not said.has("election-type"):
        return fail("Missing required option(s): election-type")
    try:
        election = ElectionType[said.text("election-type").upper()]
    except KeyError:
        raise BadFlags(f"Invalid election type {said.text('election-type')}: preferred or unclean") from None
    ways = [flag for flag in ("all-topic-partitions", "topic", "path-to-json-file") if said.has(flag)]
    if not ways:
        return fail(
            "One and only one of the following options is required: topic, all-topic-partitions, path-to-json-file"
        )
    if said.has("topic") != said.has("partition"):
        missing = "partition" if said.has("topic") else "topic"
        return fail(f"Missing required option(s): {missing}")
    wanted = _partitions(said)
    done: dict[TopicPartition, None] = {}
    failures: dict[TopicPartition, PenstockError] = {}
    try:
        done = ask_cluster(
            said, ReassignmentAdmin, lambda admin: admin.elect_leaders(wanted, election=election)
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


def _partitions(said: Said) -> list[TopicPartition] | None:
    from penstock.client.cluster import TopicPartition

    if said.has("all-topic-partitions"):
        return None
    if said.has("topic"):
        return [TopicPartition(said.text("topic"), said.number("partition"))]
    path = said.text("path-to-json-file")
    with open(path, encoding="utf-8") as file:
        try:
            read = json.load(file)
            return [TopicPartition(str(part["topic"]), int(part["partition"])) for part in read["partitions"]]
        except (ValueError, KeyError, TypeError):
            raise BadFlags(f"{path} is not a list of partitions in JSON") from None
