"""Plans what a batch reads, and splits it into tasks so that all cores work. No I/O.

A range is a run of offsets of one partition. Offsets may have gaps (transaction markers, aborted or compacted records),
so the size of a range is an upper bound of its records.

Invariant: the ranges of a batch cover `[begin, end)` of every partition, each offset once.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.client.cluster import TopicPartition
from penstock.spark.errors import BadOption
from penstock.spark.offsets import Offsets
from penstock.spark.options import Options

RANGES_PER_CORE_MAX = 4
ROWS_PER_TASK_MIN = 100_000
# The overhead of a task in rows of 100 bytes: Spark's 15 ms for a Python task, and ours.
TASK_ROWS = 40_000
# By how much one core may be slower than another that waits for it at the end; benchmark `spark-read`.
UNEVENNESS = 0.1


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


def ranges_between(begin: Offsets, end: Offsets) -> list[Range]:
    """One range per partition that has something to read."""
    return [
        Range(partition, begin[partition], end[partition])
        for partition in sorted(end)
        if begin[partition] < end[partition]
    ]


# Tasks


@dataclass(frozen=True, slots=True)
class TaskSplit:
    """How ranges are split into tasks."""

    cores: int
    ranges_min: int | None = None
    size_max: int | None = None
    is_in_order: bool = False
    """One task reads all of a partition, so that rows keep their order, unless one of the other two requires a split.
    """

    @classmethod
    def of(cls, options: Options, *, cores: int, is_in_order: bool) -> TaskSplit:
        """From the options; `is_in_order` is the default."""
        ranges_min, size_max = options.get("minPartitions"), options.get("maxRecordsPerPartition")
        in_order = options.get("inOrder")
        if in_order and (ranges_min is not None or size_max is not None):
            raise BadOption(
                "option inOrder reads each partition in one task: remove minPartitions and maxRecordsPerPartition"
            )
        return cls(cores, ranges_min, size_max, is_in_order if in_order is None else in_order)

    def split(self, ranges: Iterable[Range]) -> list[Range]:
        """Split the larger ranges into equal parts: few enough that tasks cost little, many enough that no core waits
        long for another."""
        whole = [each for each in ranges if each.size > 0]
        total = sum(each.size for each in whole)
        if not total:
            return []
        limit = total if self.size_max is None else self.size_max
        if self.ranges_min is not None and len(whole) < self.ranges_min:
            limit = min(limit, max(total // self.ranges_min, 1))

        def split_into(pieces: int) -> list[Range]:
            about = max(total / pieces, ROWS_PER_TASK_MIN)
            counts = (max(round(each.size / about), math.ceil(each.size / limit)) for each in whole)
            return [part for each, count in zip(whole, counts, strict=True) for part in _parts(each, count)]

        if self.is_in_order:
            return split_into(1)
        ways = (split_into(self.cores * count) for count in range(1, RANGES_PER_CORE_MAX + 1))
        return min(ways, key=self._duration)

    def _duration(self, pieces: Sequence[Range]) -> float:
        """How long the cores will take, in rows: each part goes to the core that is free first."""
        busy = [0] * min(self.cores, len(pieces))
        for piece in pieces:
            heapq.heapreplace(busy, busy[0] + piece.size + TASK_ROWS)
        return max(busy) + UNEVENNESS * max(piece.size for piece in pieces)


def _parts(whole: Range, count: int) -> list[Range]:
    edges = [whole.start + whole.size * index // count for index in range(count + 1)]
    return [Range(whole.partition, start, end) for start, end in itertools.pairwise(edges)]


# Micro-batches


@dataclass(frozen=True, slots=True)
class Limits:
    """The upper and lower limits of a micro-batch."""

    rows_max: int | None = None
    rows_min: int | None = None
    delay_max_ms: int = 0
    bytes_max: int | None = None

    def is_too_little(self, begin: Offsets, end: Offsets, *, waited_ms: float) -> bool:
        """Whether less than the minimum is available, and the batch can still wait."""
        return (
            self.rows_min is not None
            and waited_ms < self.delay_max_ms
            and available(begin, end) < self.rows_min
        )

    def end(
        self, begin: Offsets, end: Offsets, means: Mapping[TopicPartition, float] | None = None
    ) -> Offsets:
        """Where the batch ends. `means` are the average bytes of a record by partition."""
        rows_max = self.rows_max
        if self.bytes_max is not None and means is not None:
            by_bytes = rows_of_bytes(begin, end, means, self.bytes_max)
            rows_max = by_bytes if rows_max is None else min(rows_max, by_bytes)
        return dict(end) if rows_max is None else share_out(begin, end, rows_max)


def available(begin: Offsets, end: Offsets) -> int:
    """How many offsets are between."""
    return sum(max(offset - begin[partition], 0) for partition, offset in end.items())


def share_out(begin: Offsets, end: Offsets, rows_max: int) -> Offsets:
    """The end of a batch of about `rows_max` offsets: each partition gets a share proportional to its available
    offsets, and at least one, so that small ones do not starve."""
    total = available(begin, end)
    if total <= rows_max:
        return dict(end)
    ends = dict(end)
    for partition, offset in end.items():
        size = offset - begin[partition]
        if size > 0:
            ends[partition] = begin[partition] + max(rows_max * size // total, 1)
    return ends


def rows_of_bytes(begin: Offsets, end: Offsets, means: Mapping[TopicPartition, float], bytes_max: int) -> int:
    """How many of the available offsets make about `bytes_max`; at least one."""
    total = available(begin, end)
    total_bytes = sum(
        max(offset - begin[partition], 0) * means.get(partition, 0.0) for partition, offset in end.items()
    )
    if total_bytes <= bytes_max:
        return max(total, 1)
    return max(int(total * bytes_max / total_bytes), 1)
