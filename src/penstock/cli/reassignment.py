"""Reassignment plans: read from Kafka's JSON, proposed for some brokers, executed and verified.

{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}]}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from penstock.cli.failures import Refusal
from penstock.client.admin.cluster import BrokerDescription, ClusterAdmin
from penstock.client.admin.configs import ConfigChange, ConfigResource, ConfigsAdmin
from penstock.client.admin.log_dirs import LogDirsAdmin, Replica
from penstock.client.admin.reassignment import Reassignment, ReassignmentAdmin
from penstock.client.admin.topics import TopicsAdmin
from penstock.client.cluster import TopicPartition
from penstock.client.errors import ItemsFailed, UnknownTopicOrPartition

ANY_DIRECTORY = "any"
BROKER_THROTTLES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
TOPIC_THROTTLES = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")

Assignment = dict[TopicPartition, tuple[int, ...]]


class ReassigningAdmin(ReassignmentAdmin, TopicsAdmin, ClusterAdmin, ConfigsAdmin, LogDirsAdmin):
    """The families of admin calls that reassignments need."""


class BadPlan(Refusal):
    """The file is not a valid plan, or the plan cannot be executed."""


class Plan(NamedTuple):
    replicas: Assignment
    directories: dict[Replica, str]
    """The log directory of each replica that has one."""


def read_plan(text: str) -> Plan:
    replicas: Assignment = {}
    directories: dict[Replica, str] = {}
    for part in _parts(text, "partitions"):
        try:
            partition = TopicPartition(str(part["topic"]), int(part["partition"]))
            brokers = tuple(int(broker) for broker in part["replicas"])
            wanted = [str(path) for path in part.get("log_dirs", [ANY_DIRECTORY] * len(brokers))]
        except (KeyError, TypeError, ValueError):
            raise BadPlan(
                f"every partition needs a topic, a partition and replicas: {json.dumps(part)}"
            ) from None
        if partition in replicas:
            raise BadPlan(f"Partition reassignment contains duplicate topic partitions: {partition}")
        if len(set(brokers)) < len(brokers):
            twice = ",".join(str(broker) for broker in dict.fromkeys(brokers) if brokers.count(broker) > 1)
            raise BadPlan(
                "Partition replica lists may not contain duplicate entries: "
                f"{partition} contains multiple entries for {twice}"
            )
        if not brokers:
            raise BadPlan(f"Partition replica list cannot be empty: {partition}")
        if len(wanted) != len(brokers):
            raise BadPlan(f"Size of replicas list and log_dirs list are different for {partition}")
        replicas[partition] = brokers
        directories |= {
            Replica(*partition, broker): path
            for broker, path in zip(brokers, wanted, strict=True)
            if path != ANY_DIRECTORY
        }
    if not replicas:
        raise BadPlan("Partition reassignment list cannot be empty")
    return Plan(replicas, directories)


def read_topics(text: str) -> list[str]:
    """`{"topics": [{"topic": "orders"}], "version": 1}`."""
    try:
        return [str(part["topic"]) for part in _parts(text, "topics")]
    except (KeyError, TypeError):
        raise BadPlan("every entry of topics needs a topic") from None


def _parts(text: str, key: str) -> list[Any]:
    try:
        read = json.loads(text)
    except ValueError:
        raise BadPlan("The input string is not a valid JSON") from None
    if not isinstance(read, dict) or read.get("version", 1) != 1 or not isinstance(read.get(key), list):
        raise BadPlan(f"not a plan of version 1: it needs a list of {key}")
    parts: list[Any] = read[key]
    return parts


def to_json(
    replicas: Mapping[TopicPartition, Sequence[int]], directories: Mapping[Replica, str] | None = None
) -> str:
    """The plan in Kafka's format, on one line."""
    known = directories or {}
    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(brokers),
            "log_dirs": [known.get(Replica(*partition, broker), ANY_DIRECTORY) for broker in brokers],
        }
        for partition, brokers in sorted(replicas.items())
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"))


async def current_replicas(admin: TopicsAdmin, topics: Iterable[str]) -> Assignment:
    described = await admin.describe_topics(topics)
    return {
        TopicPartition(name, partition.index): partition.replicas
        for name, topic in described.items()
        for partition in topic.partitions
    }


async def current_directories(admin: ReassigningAdmin, replicas: Assignment) -> dict[Replica, str]:
    """The log directory of each replica."""
    found = await admin.describe_log_dirs(
        sorted({broker for brokers in replicas.values() for broker in brokers})
    )
    return {
        Replica(*replica.partition, broker): directory.path
        for broker, directories in found.items()
        for directory in directories
        for replica in directory.replicas
        if not replica.is_future and replica.partition in replicas
    }


def propose(current: Assignment, brokers: Sequence[BrokerDescription]) -> Assignment:
    """Distribute partitions over brokers: same replication factor, neighbours in different racks."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.id):
        by_rack.setdefault(broker.rack or "", []).append(broker.id)
    circle = [each for row in zip_longest(*by_rack.values()) for each in row if each is not None]
    proposed: Assignment = {}
    for index, (partition, replicas) in enumerate(sorted(current.items())):
        if len(replicas) > len(circle):
            raise BadPlan(
                f"{partition} has {len(replicas)} replicas, but the list has only {len(circle)} registered broker(s)"
            )
        # Each round shifts the followers, so that the partitions of one leader have different followers.
        shift = index // len(circle)
        steps = [0, *(1 + (step + shift) % (len(circle) - 1) for step in range(len(replicas) - 1))]
        proposed[partition] = tuple(circle[(index + step) % len(circle)] for step in steps)
    return proposed


class Progress(NamedTuple):
    """The progress of one partition."""

    is_moving: bool
    replicas: tuple[int, ...]
    target: tuple[int, ...]

    @property
    def is_done(self) -> bool:
        return not self.is_moving and self.replicas == self.target


async def progress_of(
    admin: ReassigningAdmin, target: Assignment
) -> tuple[dict[TopicPartition, Progress], Mapping[TopicPartition, Reassignment]]:
    """The progress of each partition, and all reassignments in the cluster."""
    moving = await admin.list_reassignments()
    still = sorted({partition.topic for partition in target if partition not in moving})
    try:
        current = await current_replicas(admin, still) if still else {}
    except ItemsFailed as failed:
        if not all(isinstance(error, UnknownTopicOrPartition) for error in failed.exceptions):
            raise
        current = await current_replicas(admin, failed.results) if failed.results else {}
    return {
        partition: Progress(
            partition in moving,
            moving[partition].replicas if partition in moving else current.get(partition, ()),
            brokers,
        )
        for partition, brokers in sorted(target.items())
    }, moving


async def set_throttle(
    admin: ReassigningAdmin, target: Assignment, current: Assignment, bytes_per_second: int
) -> None:
    """Limit the replication rate between brokers; `clear_throttles` removes the limit."""
    brokers = {broker for replicas in (*target.values(), *current.values()) for broker in replicas}
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    for partition, wanted in target.items():
        there = current.get(partition, ())
        leaders.setdefault(partition.topic, []).extend(f"{partition.partition}:{broker}" for broker in there)
        followers.setdefault(partition.topic, []).extend(
            f"{partition.partition}:{broker}" for broker in wanted if broker not in there
        )
    await admin.alter_configs(
        {
            **{
                ConfigResource.topic(topic): ConfigChange(
                    set=dict(zip(TOPIC_THROTTLES, (leaders[topic], followers[topic]), strict=True))
                )
                for topic in leaders
            },
            **{
                ConfigResource.broker(broker): ConfigChange(
                    set=dict.fromkeys(BROKER_THROTTLES[:2], bytes_per_second)
                )
                for broker in sorted(brokers)
            },
        }
    )


async def clear_throttles(admin: ReassigningAdmin, brokers: Iterable[int], topics: Iterable[str]) -> None:
    await admin.alter_configs(
        {
            **{ConfigResource.broker(broker): ConfigChange(unset=BROKER_THROTTLES) for broker in brokers},
            **{ConfigResource.topic(topic): ConfigChange(unset=TOPIC_THROTTLES) for topic in topics},
        }
    )
