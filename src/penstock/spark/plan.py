"""What one batch reads, and how it is cut so that all cores work. No I/O.

A range is a run of offsets of one partition. Offsets may have gaps (markers of transactions, what was aborted or
compacted away), so the size of a range is the most that it can hold.

Invariant: the ranges of a batch together are `[begin, end)` of every partition, each offset once.
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
# What a task costs beside its rows, as so many of 100 bytes: Spark's own 15 ms for one in Python, and ours.
TASK_ROWS = 40_000
# By how much one core may be slower than another, which waits for it at the end: `spark-read` of the benchmark.
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
    """One for each partition that has something to read."""
    return [
        Range(partition, begin[partition], end[partition])
        for partition in sorted(end)
        if begin[partition] < end[partition]
    ]


# Tasks


@dataclass(frozen=True, slots=True)
class Cutting:
    """How the work is shared out among tasks."""

    cores: int
    ranges_min: int | None = None
    size_max: int | None = None
    is_in_order: bool = False
    """What is in one partition stays with one task, so that its rows keep their order; unless the other two want it
    otherwise."""

    @classmethod
    def of(cls, options: Options, *, cores: int, is_in_order: bool) -> Cutting:
        """As the options say, or else as it is given."""
        ranges_min, size_max = options.get("minPartitions"), options.get("maxRecordsPerPartition")
        said = options.get("inOrder")
        if said and (ranges_min is not None or size_max is not None):
            raise BadOption(
                "option inOrder: each partition is read by one task, which minPartitions and maxRecordsPerPartition cut"
            )
        return cls(cores, ranges_min, size_max, is_in_order if said is None else said)

    def cut(self, ranges: Iterable[Range]) -> list[Range]:
        """Pieces for tasks: the larger ranges are cut into equal parts, few enough that tasks cost little and many
        enough that no core waits long for another."""
        whole = [each for each in ranges if each.size > 0]
        total = sum(each.size for each in whole)
        if not total:
            return []
        limit = total if self.size_max is None else self.size_max
        if self.ranges_min is not None and len(whole) < self.ranges_min:
            limit = min(limit, max(total // self.ranges_min, 1))

        def cut_into(pieces: int) -> list[Range]:
            about = max(total / pieces, ROWS_PER_TASK_MIN)
            counts = (max(round(each.size / about), math.ceil(each.size / limit)) for each in whole)
            return [part for each, count in zip(whole, counts, strict=True) for part in _parts(each, count)]

        if self.is_in_order:
            return cut_into(1)
        ways = (cut_into(self.cores * count) for count in range(1, RANGES_PER_CORE_MAX + 1))
        return min(ways, key=self._duration)

    def _duration(self, pieces: Sequence[Range]) -> float:
        """How long the cores will take, in rows: each piece goes to the one that is free first."""
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
    """How much a micro-batch may read, and has to."""

    rows_max: int | None = None
    rows_min: int | None = None
    delay_max_ms: int = 0
    bytes_max: int | None = None

    def is_too_little(self, begin: Offsets, end: Offsets, *, waited_ms: float) -> bool:
        """There is less than a batch has to have, and it may still be waited for."""
        return (
            self.rows_min is not None
            and waited_ms < self.delay_max_ms
            and waiting(begin, end) < self.rows_min
        )

    def end(
        self, begin: Offsets, end: Offsets, means: Mapping[TopicPartition, float] | None = None
    ) -> Offsets:
        """Where the batch ends. `means` are the bytes of a record, on the average of each partition."""
        rows_max = self.rows_max
        if self.bytes_max is not None and means is not None:
            by_bytes = rows_of_bytes(begin, end, means, self.bytes_max)
            rows_max = by_bytes if rows_max is None else min(rows_max, by_bytes)
        return dict(end) if rows_max is None else share_out(begin, end, rows_max)


def waiting(begin: Offsets, end: Offsets) -> int:
    """How many offsets are between."""
    return sum(max(offset - begin[partition], 0) for partition, offset in end.items())


def share_out(begin: Offsets, end: Offsets, rows_max: int) -> Offsets:
    """Where a batch of about `rows_max` offsets ends: each partition gets its share of what waits in it, and at least
    one offset, so that small ones do not starve."""
    total = waiting(begin, end)
    if total <= rows_max:
        return dict(end)
    ends = dict(end)
    for partition, offset in end.items():
        size = offset - begin[partition]
        if size > 0:
            ends[partition] = begin[partition] + max(rows_max * size // total, 1)
    return ends


def rows_of_bytes(begin: Offsets, end: Offsets, means: Mapping[TopicPartition, float], bytes_max: int) -> int:
    """How many offsets of what waits have about as many bytes; at least one."""
    total = waiting(begin, end)
    total_bytes = sum(
        max(offset - begin[partition], 0) * means.get(partition, 0.0) for partition, offset in end.items()
    )
    if total_bytes <= bytes_max:
        return max(total, 1)
    return max(int(total * bytes_max / total_bytes), 1)
