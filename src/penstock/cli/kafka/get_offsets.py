"""`kafka-get-offsets.sh`: offsets of partitions, as lines of `topic:partition:offset`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.cli.failures import FAILED
from penstock.cli.kafka.tool import BOOTSTRAP_SERVER, COMMAND_CONFIG, CommandFailed, Options, Tool, flag

if TYPE_CHECKING:
    from penstock.client.cluster import TopicPartition

TOOL = Tool(
    "An interactive shell for getting topic-partition offsets.",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    flag("topic-partitions", "Patterns of partitions, separated by commas.", "topic1:1,topic2:0-3,topic3"),
    flag("topic", "Regular expression of topics.", "topic"),
    flag("partitions", "Partition ids, separated by commas.", "partition ids"),
    flag(
        "time",
        "Which offsets: a name, or a timestamp in milliseconds.",
        "timestamp / latest / ...",
        default="latest",
    ),
    flag("exclude-internal-topics", "Exclude internal topics."),
)

RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
WHEN = (
    "Please use -1 or latest / -2 or earliest / -3 or max-timestamp / -4 or earliest-local / -5 or latest-tiered / "
    "-6 or earliest-pending-upload, or a specified long format timestamp"
)

Filter = Callable[["TopicPartition"], bool]


def run(options: Options) -> int:
    try:
        _print_offsets(options)
    except CommandFailed as problem:
        print(f"Error occurred: {problem}", file=sys.stderr)
        return FAILED
    return 0


def _print_offsets(options: Options) -> None:
    from penstock.cli.kafka.admin import message_of, with_admin
    from penstock.client.admin.offsets import ListedOffset, OffsetsAdmin
    from penstock.client.admin.topics import TopicsAdmin
    from penstock.client.cluster import TopicPartition
    from penstock.client.errors import ItemsFailed

    class OffsetsAndTopicsAdmin(OffsetsAdmin, TopicsAdmin):
        pass

    is_selected, when = _filter(options), _when(options.text("time"))

    async def work(admin: OffsetsAndTopicsAdmin) -> dict[TopicPartition, ListedOffset]:
        listed = await admin.list_topics(include_internal=not options.has("exclude-internal-topics"))
        wanted = [
            partition
            for topic in listed
            for partition in (TopicPartition(topic.name, index) for index in range(topic.partitions))
            if is_selected(partition)
        ]
        if not wanted:
            raise CommandFailed("Could not match any topic-partitions with the specified filters")
        try:
            return await admin.list_offsets(dict.fromkeys(wanted, when))
        except ItemsFailed as failed:
            for partition, error in failed.failures.items():
                reason = message_of(error)
                print(
                    f"Skip getting offsets for topic-partition {partition} due to error: {reason}",
                    file=sys.stderr,
                )
            return dict(failed.results)

    found = with_admin(options, OffsetsAndTopicsAdmin, work)
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
        raise CommandFailed(f"Malformed time argument {text}. {WHEN}") from None


def _filter(options: Options) -> Filter:
    rules = options.get("topic-partitions")
    topic, numbers = options.get("topic"), options.get("partitions")
    if rules is not None:
        if topic is not None or numbers is not None:
            raise CommandFailed("--topic-partitions cannot be used with --topic or --partitions")
        allowed = [_rule(text) for text in rules.split(",")]
        return lambda partition: any(is_selected(partition) for is_selected in allowed)
    try:
        indexes = {int(number) for number in numbers.split(",")} if numbers else set()
    except ValueError:
        raise CommandFailed(
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
        raise CommandFailed(f"Invalid rule specification: {text}")
    topic, only, first, end = found.groups()
    pattern = _pattern(topic or ".*")
    start, stop = int(only or first or 0), int(only) + 1 if only else int(end) if end else sys.maxsize
    return lambda partition: bool(pattern.fullmatch(partition.topic) and start <= partition.partition < stop)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text.strip().replace(",", "|").replace(" ", "").strip("\"'"))
    except re.error:
        raise CommandFailed(f"{text} is an invalid regex.") from None
