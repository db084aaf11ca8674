"""`kafka-get-offsets.sh`: offsets of partitions, one `topic:partition:offset` a line."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock.cli.failures import FAILED
from penstock.cli.kafka.flags import BOOTSTRAP_SERVER, COMMAND_CONFIG, Flag, Flags, Said, run_tool

if TYPE_CHECKING:
    from penstock.client.cluster import TopicPartition

FLAGS = Flags(
    "An interactive shell for getting topic-partition offsets.",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Flag(
        "topic-partitions", "Patterns of partitions, with commas between them.", "topic1:1,topic2:0-3,topic3"
    ),
    Flag("topic", "The topic; a regular expression.", "topic"),
    Flag("partitions", "Numbers of partitions, with commas between them.", "partition ids"),
    Flag(
        "time",
        "Which offsets: a name, or milliseconds since 1970.",
        "timestamp / latest / ...",
        default="latest",
    ),
    Flag("exclude-internal-topics", "Leave out topics that brokers use for themselves."),
)

RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
WHEN = (
    "Please use -1 or latest / -2 or earliest / -3 or max-timestamp / -4 or earliest-local / -5 or latest-tiered / "
    "-6 or earliest-pending-upload, or a specified long format timestamp"
)

Filter = Callable[["TopicPartition"], bool]


class _Failed(Exception):
    """Told as Kafka's tool tells it."""


def run(arguments: Sequence[str]) -> int:
    return run_tool(FLAGS, arguments, _run)


def _run(said: Said) -> int:
    try:
        _print_offsets(said)
    except _Failed as problem:
        print(f"Error occurred: {problem}", file=sys.stderr)
        return FAILED
    return 0


def _print_offsets(said: Said) -> None:
    from penstock.cli.kafka.tools import ask_cluster, message_of
    from penstock.client.admin.offsets import ListedOffset, OffsetsAdmin
    from penstock.client.admin.topics import TopicsAdmin
    from penstock.client.cluster import TopicPartition
    from penstock.client.errors import ItemsFailed

    class Looking(OffsetsAdmin, TopicsAdmin):
        pass

    is_meant, when = _filter(said), _when(said.text("time"))

    async def work(admin: Looking) -> dict[TopicPartition, ListedOffset]:
        listed = await admin.list_topics(include_internal=not said.has("exclude-internal-topics"))
        wanted = [
            partition
            for topic in listed
            for partition in (TopicPartition(topic.name, index) for index in range(topic.partitions))
            if is_meant(partition)
        ]
        if not wanted:
            raise _Failed("Could not match any topic-partitions with the specified filters")
        try:
            return await admin.list_offsets(dict.fromkeys(wanted, when))
        except ItemsFailed as failed:
            for partition, error in failed.failures.items():
                words = message_of(error)
                print(
                    f"Skip getting offsets for topic-partition {partition} due to error: {words}",
                    file=sys.stderr,
                )
            return dict(failed.results)

    found = ask_cluster(said, Looking, work)
    for partition in sorted(found, key=str):
        if found[partition].offset >= 0:
            print(f"{partition.topic}:{partition.partition}:{found[partition].offset}")


def _when(text: str) -> int:
    from penstock.client.admin.offsets import OFFSET_NAMES

    if text in OFFSET_NAMES:
        return OFFSET_NAMES[text]
    try:
        return int(text)
    except ValueError:
        raise _Failed(f"Malformed time argument {text}. {WHEN}") from None


def _filter(said: Said) -> Filter:
    rules = said.get("topic-partitions")
    topic, numbers = said.get("topic"), said.get("partitions")
    if rules is not None:
        if topic is not None or numbers is not None:
            raise _Failed("--topic-partitions cannot be used with --topic or --partitions")
        allowed = [_rule(text) for text in rules.split(",")]
        return lambda partition: any(is_meant(partition) for is_meant in allowed)
    try:
        indexes = {int(number) for number in numbers.split(",")} if numbers else set()
    except ValueError:
        raise _Failed(
            f"--partitions expects a comma separated list of numeric partition ids, but received: {numbers}"
        ) from None
    pattern = _pattern(topic or ".*")
    return lambda partition: bool(
        pattern.fullmatch(partition.topic) and (not indexes or partition.partition in indexes)
    )


def _rule(text: str) -> Filter:
    """`topic`, `topic:1`, `topic:0-3` (without the 3), `topic:2-`, `:5`."""
    found = RULE.fullmatch(text)
    if found is None:
        raise _Failed(f"Invalid rule specification: {text}")
    topic, only, first, end = found.groups()
    pattern = _pattern(topic or ".*")
    start, stop = int(only or first or 0), int(only) + 1 if only else int(end) if end else sys.maxsize
    return lambda partition: bool(pattern.fullmatch(partition.topic) and start <= partition.partition < stop)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text.strip().replace(",", "|").replace(" ", "").strip("\"'"))
    except re.error:
        raise _Failed(f"{text} is an invalid regex.") from None
