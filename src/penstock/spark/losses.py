"""Tells data loss from mere gaps between offsets. No I/O.

Gaps are no loss: transaction markers, aborted records and compaction leave them. Losses are a deleted or recreated
topic, a log that ends before the query's offset, and records that retention deleted before they were read. The option
`failOnDataLoss` decides: the query fails, or a warning is logged and it continues with the records that exist.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from penstock.client.cluster import TopicPartition
from penstock.spark.errors import DataLost
from penstock.spark.offsets import Offsets, StreamOffset
from penstock.spark.plan import Range

logger = logging.getLogger("penstock.spark")

REMEDY = "failOnDataLoss=false continues with the records that exist; a new checkpointLocation starts over"


def report(losses: Iterable[str], *, fails: bool) -> None:
    """Fail with all of them, or log a warning for each."""
    messages = list(losses)
    if messages and fails:
        raise DataLost(f"{'; '.join(messages)} ({REMEDY})")
    for message in messages:
        logger.warning("data was lost: %s", message)


def lost_between(
    before: StreamOffset, after: StreamOffset, reads: Callable[[TopicPartition], bool] = lambda _: True
) -> list[str]:
    """What a stream at `before` has lost, given the current ends of partitions. `reads` tells whether the query would
    read a partition if it existed."""
    lost: list[str] = []
    unread = {partition: offset for partition, offset in before.offsets.items() if not reads(partition)}
    if unread:
        lost.append(
            f"the checkpoint belongs to a query that read up to {_places(unread)}, which this query does not read;"
            " every query needs its own checkpointLocation"
        )
    own = {partition: offset for partition, offset in before.offsets.items() if partition not in unread}
    for topic, read in _by_topic(own).items():
        deleted = [partition for partition in read if partition not in after.offsets]
        if before.is_other_topic(topic, after):
            lost.append(
                f"topic {topic} was deleted and recreated (its id was {before.ids[topic]}, now {after.ids[topic]});"
                f" the old one was read up to {_places(read)}, the new one will be read from its start"
            )
        elif len(deleted) == len(read):
            lost.append(f"topic {topic} was deleted; it was read up to {_places(read)}")
        else:
            if deleted:
                lost.append(
                    f"partitions were deleted; they were read up to {_places({each: read[each] for each in deleted})}"
                )
            lost += [
                f"{partition} ends at offset {after.offsets[partition]}, but the query has read up to offset {offset}"
                for partition, offset in read.items()
                if partition in after.offsets and after.offsets[partition] < offset
            ]
    return lost


def read_from_start(before: StreamOffset, after: StreamOffset) -> list[TopicPartition]:
    """The partitions that are read from their start: they are new, or their topic was recreated."""
    return [
        partition
        for partition in after.offsets
        if partition not in before.offsets or before.is_other_topic(partition.topic, after)
    ]


def lost_of_new(earliest: Offsets) -> list[str]:
    """A partition that was created while the query ran should start at offset 0."""
    return [
        f"{partition} is new to the query, but starts at offset {offset}: earlier records were deleted"
        for partition, offset in earliest.items()
        if offset > 0
    ]


def lost_before_read(ends: Offsets) -> list[str]:
    """Partitions that should be read from their start to these offsets, and were deleted."""
    return [
        f"cannot read {partition} up to offset {end}: the partition was deleted"
        for partition, end in ends.items()
        if end > 0
    ]


def without_recreated_topics(
    ranges: Iterable[Range], planned: StreamOffset, now: StreamOffset
) -> tuple[list[Range], list[str]]:
    """Of ranges that were planned some time ago, those that can still be read, and what was lost with its topic."""
    kept, lost = [], []
    for each in ranges:
        topic = each.partition.topic
        if planned.is_other_topic(topic, now):
            lost.append(
                f"cannot read {each}: topic {topic} was deleted and recreated"
                f" (its id was {planned.ids[topic]}, now {now.ids[topic]})"
            )
        else:
            kept.append(each)
    return kept, lost


def _by_topic(offsets: Offsets) -> dict[str, Offsets]:
    topics: dict[str, Offsets] = {}
    for partition in sorted(offsets):
        topics.setdefault(partition.topic, {})[partition] = offsets[partition]
    return topics


PLACES_MAX = 8  # a topic may have thousands of partitions


def _places(offsets: Offsets) -> str:
    shown = [f"offset {offset} of {partition}" for partition, offset in list(offsets.items())[:PLACES_MAX]]
    if len(offsets) > PLACES_MAX:
        shown.append(f"{len(offsets) - PLACES_MAX} more partitions")
    return ", ".join(shown)
