"""What one batch reads, and how it is cut so that all cores work. No I/O.

A range is a run of offsets of one partition. Offsets may have gaps (markers of transactions, what was aborted or
compacted away), so the size of a range is the most that it can hold.

Invariant: the ranges of a batch together are `[start, end)` of every partition, each offset once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable
from typing import NamedTuple

from penstock.client.cluster import TopicPartition
from penstock.spark.offsets import Offsets

RANGES_PER_CORE = 4  # so that cores which were given little do not wait long for the others
ROWS_PER_TASK_MIN = 100_000  # a task costs about what reading some ten thousand rows does


class Range(NamedTuple):
    """Offsets `[start, end)` of a partition."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start

    def __str__(self) -> str:
        return f"offsets [{self.start}, {self.end}) of {self.partition}"


def cut(
    ranges: Iterable[Range],
    *,
    cores: int,
    ranges_min: int | None = None,
    size_max: int | None = None,
) -> list[Range]:
    """Pieces for tasks, without those that are empty: the larger ranges are cut into equal parts."""
    whole = [each for each in ranges if each.size > 0]
    total = sum(each.size for each in whole)
    if not total:
        return []
    piece = max(math.ceil(total / (cores * RANGES_PER_CORE)), ROWS_PER_TASK_MIN)
    if ranges_min is not None:
        piece = min(piece, max(total // ranges_min, 1))
    if size_max is not None:
        piece = min(piece, size_max)
    return [part for each in whole for part in _parts(each, math.ceil(each.size / piece))]


def _parts(whole: Range, count: int) -> list[Range]:
    edges = [whole.start + whole.size * index // count for index in range(count + 1)]
    return [Range(whole.partition, start, end) for start, end in itertools.pairwise(edges) if end > start]


def share_out(start: Offsets, end: Offsets, limit: int) -> Offsets:
    """Where a batch of at most about `limit` offsets ends: each partition gets its share of what waits in it, and at
    least one offset, so that small ones do not starve."""
    sizes = {partition: end[partition] - start.get(partition, 0) for partition in end}
    total = sum(size for size in sizes.values() if size > 0)
    if total <= limit:
        return dict(end)
    return {
        partition: start.get(partition, 0) + min(max(limit * size // total, 1), size)
        if size > 0
        else end[partition]
        for partition, size in sizes.items()
    }


def waiting(start: Offsets, end: Offsets) -> int:
    """How many offsets are between."""
    return sum(max(offset - start.get(partition, 0), 0) for partition, offset in end.items())


def ranges_between(start: Offsets, end: Offsets) -> list[Range]:
    return [Range(partition, start[partition], end[partition]) for partition in sorted(end)]


def topics_of(partitions: Collection[TopicPartition]) -> list[str]:
    return sorted({partition.topic for partition in partitions})
