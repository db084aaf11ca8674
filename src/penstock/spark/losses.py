"""What a query was to read and cannot any more: told apart from what is only a gap. No I/O.

Gaps between offsets are no loss: markers of transactions, aborted records and compaction leave them. A loss is a topic
that went away or was made anew, a log that ends before what was read of it, and records that retention removed before
they were read. By the option `failOnDataLoss` it ends the query, or it is a warning and the query goes on with what
there is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from penstock.client.cluster import TopicPartition
from penstock.spark.errors import DataLost
from penstock.spark.offsets import Offsets, StreamOffset
from penstock.spark.plan import Range

logger = logging.getLogger("penstock.spark")

GO_ON = "failOnDataLoss=false goes on with what there is, a new checkpointLocation begins anew"


def report(losses: Iterable[str], *, fails: bool) -> None:
    """Stop, or warn of each."""
    told = list(losses)
    if told and fails:
        raise DataLost(f"{'; '.join(told)} ({GO_ON})")
    for words in told:
        logger.warning("data was lost: %s", words)


def lost_between(
    before: StreamOffset, after: StreamOffset, reads: Callable[[TopicPartition], bool] = lambda _: True
) -> list[str]:
    """What a stream that has come to `before` lost, by the ends of the partitions that there are now; `reads` tells
    what the query would read if it were there."""
    lost: list[str] = []
    foreign = {partition: offset for partition, offset in before.offsets.items() if not reads(partition)}
    if foreign:
        lost.append(
            f"the checkpoint is of a query that read up to {_places(foreign)}, and this one does not read that:"
            " each query needs a checkpointLocation of its own"
        )
    own = {partition: offset for partition, offset in before.offsets.items() if partition not in foreign}
    for topic, read in _by_topic(own).items():
        gone = [partition for partition in read if partition not in after.offsets]
        if before.is_other_topic(topic, after):
            lost.append(
                f"topic {topic} was deleted and made anew (its id was {before.ids[topic]}, and is {after.ids[topic]});"
                f" the old one was read up to {_places(read)}, the new one is to be read from its beginning"
            )
        elif len(gone) == len(read):
            lost.append(f"topic {topic} is gone; it was read up to {_places(read)}")
        else:
            if gone:
                lost.append(
                    f"partitions are gone that were read up to {_places({each: read[each] for each in gone})}"
                )
            lost += [
                f"{partition} ends at offset {after.offsets[partition]} now, and the query has come to offset {offset}"
                for partition, offset in read.items()
                if partition in after.offsets and after.offsets[partition] < offset
            ]
    return lost


def begins_anew(before: StreamOffset, after: StreamOffset) -> list[TopicPartition]:
    """The partitions that are read from their beginning: they are new, or their topic is."""
    return [
        partition
        for partition in after.offsets
        if partition not in before.offsets or before.is_other_topic(partition.topic, after)
    ]


def lost_of_new(earliest: Offsets) -> list[str]:
    """A partition that appeared while the query ran was there from offset 0 on."""
    return [
        f"{partition} is new to the query, and its first offset is {offset}: what came before was removed already"
        for partition, offset in earliest.items()
        if offset > 0
    ]


def lost_before_read(ends: Offsets) -> list[str]:
    """Partitions that were to be read from their beginning up to these offsets, and are not there any more."""
    return [
        f"what is before offset {end} of {partition} cannot be read: the partition is gone"
        for partition, end in ends.items()
        if end > 0
    ]


def of_same_topics(
    ranges: Iterable[Range], planned: StreamOffset, now: StreamOffset
) -> tuple[list[Range], list[str]]:
    """What can still be read of ranges that were planned some time ago, and what was lost with its topic."""
    kept, lost = [], []
    for each in ranges:
        topic = each.partition.topic
        if planned.is_other_topic(topic, now):
            lost.append(
                f"{each} cannot be read: topic {topic} was deleted and made anew"
                f" (its id was {planned.ids[topic]}, and is {now.ids[topic]})"
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
        shown.append(f"{len(offsets) - PLACES_MAX} partitions more")
    return ", ".join(shown)
