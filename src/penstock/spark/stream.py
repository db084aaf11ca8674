"""Streaming reads: `spark.readStream.format("penstock")`.

Spark keeps one reader per query in a process of the driver, asks it before each micro-batch for the latest offsets, and
sends a pickled copy to the tasks, which call only `read`. This class is thin: `plan` decides what a batch reads,
`losses` what was lost.

Spark asks for the next end only after everything before `start` was processed and committed by the sink. So that is
when `start` is committed to the query's consumer group, also for the last batch of availableNow.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from penstock.protocol.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from penstock.spark import clients
from penstock.spark.errors import BadOption
from penstock.spark.lookup import Found, Lookup
from penstock.spark.losses import (
    lost_before_read,
    lost_between,
    lost_of_new,
    read_from_start,
    report,
    without_recreated_topics,
)
from penstock.spark.offsets import Offsets, StreamOffset, resolve, starting_edge
from penstock.spark.options import Options
from penstock.spark.plan import Limits, TaskSplit, ranges_between
from penstock.spark.progress import GroupProgress
from penstock.spark.reading import RangePartition, RangeReader


class PenstockStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Options, reader: RangeReader, *, cores: int) -> None:
        for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
            if options.is_set(name):
                raise BadOption(f"option {name}: a stream has no end")
        self._options = options
        self._reader = reader
        self._tasks = TaskSplit.of(options, cores=cores, is_in_order=True)
        self._limits = limits_of(options)
        self._fails = options.get("failOnDataLoss")
        self._lookup = Lookup(options)
        self._start = starting_edge(options, is_stream=True)
        self._progress = GroupProgress(options)
        self._target: StreamOffset | None = None
        """Where a query with availableNow ends."""
        self._is_available_now = False
        self._latest: StreamOffset | None = None
        self._batch_at_s = float("-inf")

    # Before the first batch

    def initialOffset(self) -> dict[str, Any]:
        return self._lookup.look(self._initial).to_json()

    def _initial(self, found: Found) -> StreamOffset:
        found.check()
        return StreamOffset(resolve(self._start, found.partitions, self._lookup.list_offsets), found.ids)

    def prepareForTriggerAvailableNow(self) -> None:
        self._is_available_now = True

    def getDefaultReadLimit(self) -> ReadLimit:
        """Report one limit, so that Spark knows that batches are limited. `latestOffset` applies all limits."""
        limits = self._limits
        if limits.rows_max is not None:
            return ReadMaxRows(limits.rows_max)
        if limits.bytes_max is not None:
            return ReadMaxBytes(limits.bytes_max)
        if limits.rows_min is not None:
            return ReadMinRows(limits.rows_min)
        return ReadAllAvailable()

    # Before each batch

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        before = StreamOffset.of_json(start)
        self._progress.commit(before.offsets)
        self._latest = latest = self._target or self._end_after(before)
        if self._is_available_now:
            self._target = latest
        report(lost_between(before, latest, self._lookup.reads), fails=self._fails)
        if isinstance(limit, ReadAllAvailable):
            return latest.to_json()
        begin, _ = self._begin(before, latest)  # `partitions` reports deleted partitions
        limits = self._limits
        if not self._is_available_now:
            waited_ms = (time.monotonic() - self._batch_at_s) * 1000
            if limits.is_too_little(begin, latest.offsets, waited_ms=waited_ms):
                return start
            self._batch_at_s = time.monotonic()
        means = self._lookup.mean_bytes(latest.offsets) if limits.bytes_max is not None else None
        return StreamOffset(limits.end(begin, latest.offsets, means), latest.ids).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The latest offsets, for the query's progress."""
        return None if self._latest is None else self._latest.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        before, after = StreamOffset.of_json(start), StreamOffset.of_json(end)
        begin, deleted = self._begin(before, after)
        new = [partition for partition in after.offsets if partition not in before.offsets]
        lost = lost_of_new({partition: begin[partition] for partition in new if partition not in deleted})
        report(lost + lost_before_read(deleted), fails=self._fails)
        ranges = ranges_between(begin, after.offsets)
        if self._latest is None:
            # An earlier run planned this batch and did not finish it: topics may have been recreated since.
            ranges, lost = without_recreated_topics(ranges, after, StreamOffset({}, self._lookup.found().ids))
            report(lost, fails=self._fails)
        return [
            RangePartition(each, after.ids.get(each.partition.topic)) for each in self._tasks.split(ranges)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        return self._reader.read(partition.range, partition.topic_id)

    def commit(self, end: dict[str, Any]) -> None:
        """Called a batch too late; `latestOffset` commits instead."""

    def stop(self) -> None:
        clients.POOL.clear()

    def _end_after(self, before: StreamOffset) -> StreamOffset:
        """The current ends of all partitions. If data seems to be lost, ask again: the cluster may be in the middle of
        a change."""
        left: int = self._options.get("fetchOffset.numRetries")
        while True:
            found = self._lookup.found()
            offsets = self._lookup.list_offsets_left(dict.fromkeys(found.partitions, LATEST_TIMESTAMP))
            latest = StreamOffset(offsets, found.ids)
            if left <= 0 or not lost_between(before, latest, self._lookup.reads):
                return latest
            left -= 1
            time.sleep(self._options.get("fetchOffset.retryIntervalMs") / 1000)

    def _begin(self, before: StreamOffset, after: StreamOffset) -> tuple[Offsets, Offsets]:
        """Where each partition continues, and the ends of those that were deleted before they were read."""
        restarted = read_from_start(before, after)
        earliest = self._lookup.list_offsets_left(dict.fromkeys(restarted, EARLIEST_TIMESTAMP))
        deleted = {
            partition: after.offsets[partition] for partition in restarted if partition not in earliest
        }
        return before.offsets | earliest | deleted, deleted


def limits_of(options: Options) -> Limits:
    limits = Limits(
        rows_max=options.get("maxOffsetsPerTrigger"),
        rows_min=options.get("minOffsetsPerTrigger"),
        delay_max_ms=options.get("maxTriggerDelay"),
        bytes_max=options.get("maxBytesPerTrigger"),
    )
    if limits.rows_max is not None and limits.rows_min is not None and limits.rows_min > limits.rows_max:
        raise BadOption(
            f"option minOffsetsPerTrigger: {limits.rows_min} is more than maxOffsetsPerTrigger={limits.rows_max}"
        )
    return limits
