"""`penstock offsets`: first, last and timestamped offsets of partitions, and deleting records before an offset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from penstock.cli.connection import Connection
from penstock.cli.declare import Group, argument, option
from penstock.cli.output import Column, Output, show_time

if TYPE_CHECKING:
    from penstock.client.admin.offsets import ListedOffset
    from penstock.client.cluster import TopicPartition

command = Group(
    help="Show the first and last offset of each partition, and delete records before an offset.",
    kafka="kafka-get-offsets",
)


@command.command(
    "get",
    examples=[
        "penstock offsets get orders",
        "penstock offsets get orders --time earliest",
        "penstock offsets get orders --time 2026-01-31T12:00:00Z --json",
    ],
)
def get(
    topics: Annotated[
        tuple[str, ...],
        argument(metavar="TOPIC...", help="Topics, by default all.", complete="topic"),
    ] = (),
    *,
    connection: Connection,
    output: Output,
    time: Annotated[
        str,
        option(
            "--time",
            "-t",
            metavar="WHEN",
            help="latest, earliest, max-timestamp, a time such as 2026-01-31T12:00:00Z, how long ago, such as 15m, or "
            "milliseconds since 1970.",
        ),
    ] = "latest",
    committed: Annotated[
        bool, option("--read-committed", help="The latest offset is the last stable offset.")
    ] = False,
) -> None:
    """Show one offset of each partition: the latest, the earliest, or that of a time."""
    from penstock.client.admin.offsets import OffsetsAdmin
    from penstock.client.admin.topics import TopicsAdmin

    class OffsetsAndTopicsAdmin(OffsetsAdmin, TopicsAdmin):
        pass

    when = read_time(time)

    async def work(admin: OffsetsAndTopicsAdmin) -> dict[TopicPartition, ListedOffset]:
        names = topics or [topic.name for topic in await admin.list_topics()]
        return await admin.topic_offsets(names, when, read_committed=committed) if names else {}

    found = connection.with_admin(OffsetsAndTopicsAdmin, work)
    output.table(
        ["topic", "partition", "offset", Column("timestamp_ms", "time", show_time), "epoch"],
        [
            (
                partition.topic,
                partition.partition,
                None if listed.offset < 0 else listed.offset,
                listed.timestamp_ms,
                listed.leader_epoch,
            )
            for partition, listed in sorted(found.items())
        ],
        empty="No partition matches.",
    )


def read_time(text: str) -> str | int:
    """A name of `OFFSET_NAMES`, or milliseconds since 1970."""
    from time import time_ns

    from penstock.cli.failures import Misuse
    from penstock.cli.times import EXAMPLES, parse_time
    from penstock.client.admin.offsets import OFFSET_NAMES

    if text in OFFSET_NAMES:
        return text
    if text.lstrip("-").isdecimal():
        return int(text)
    moment = parse_time(text, now_ms=time_ns() // 1_000_000)
    if moment is None:
        names = ", ".join(OFFSET_NAMES)
        raise Misuse(f"--time {text}: must be one of {names}, {EXAMPLES}, or milliseconds since 1970")
    return moment


@command.command(
    "delete-records",
    examples=[
        "penstock offsets delete-records orders:0=1500",
        "penstock offsets delete-records orders:0=end",
    ],
)
def delete_records(
    before: Annotated[
        list[str],
        argument(metavar="TOPIC:PARTITION=OFFSET...", help="The first record to keep; `end` keeps none."),
    ],
    *,
    connection: Connection,
    output: Output,
) -> None:
    """Delete the records of partitions before an offset. This cannot be undone."""
    from penstock.client.admin.offsets import OffsetsAdmin

    wanted = dict(map(_read_cut, before))
    starts = connection.with_admin(OffsetsAdmin, lambda admin: admin.delete_records(wanted))
    output.table(
        ["topic", "partition", "start_offset"],
        [(*partition, start) for partition, start in sorted(starts.items())],
    )


def _read_cut(text: str) -> tuple[TopicPartition, int]:
    from penstock.cli.failures import Misuse
    from penstock.cli.values import read_partition
    from penstock.client.admin.offsets import TO_THE_END

    partition, separator, offset = text.rpartition("=")
    if not separator or not (offset == "end" or offset.isdecimal()):
        raise Misuse(f"{text}: must be topic:partition=offset, such as orders:0=1500 or orders:0=end")
    return read_partition(partition), TO_THE_END if offset == "end" else int(offset)
