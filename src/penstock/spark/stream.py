"""Reads topics as they grow: `spark.readStream.format("penstock")`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from penstock.spark import plan
from penstock.spark.errors import BadOption
from penstock.spark.lookup import Lookup
from penstock.spark.offsets import EARLIEST, LATEST, StreamOffset, resolve, starting_edge
from penstock.spark.options import Options
from penstock.spark.reading import RangePartition, read_range


class PenstockStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Options, *, cores: int) -> None:
        self._options = options
        self._cores = cores
        self._lookup = Lookup(options)
        self._start = starting_edge(options, is_stream=True)
        self._target: StreamOffset | None = None
        self._latest: StreamOffset | None = None

    def initialOffset(self) -> dict[str, Any]:
        found = self._lookup.found()
        if found.missing:
            raise BadOption(f"there is no topic {', '.join(found.missing)}")
        return StreamOffset(
            resolve(self._start, found.partitions, self._lookup.list_offsets), found.ids
        ).to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._end()

    def getDefaultReadLimit(self) -> ReadLimit:
        rows = self._options.get("maxOffsetsPerTrigger")
        return ReadMaxRows(rows) if rows is not None else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        self._latest = latest = self._target or self._end()
        offsets = latest.offsets
        if isinstance(limit, ReadMaxRows):
            offsets = plan.share_out(StreamOffset.of_json(start).offsets, offsets, limit.max_rows)
        return StreamOffset(offsets, latest.ids).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None if self._latest is None else self._latest.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        before, after = StreamOffset.of_json(start), StreamOffset.of_json(end)
        added = [partition for partition in after.offsets if partition not in before.offsets]
        begin = before.offsets | self._lookup.list_offsets(dict.fromkeys(added, EARLIEST))
        ranges = plan.cut(
            plan.ranges_between(begin, after.offsets),
            cores=self._cores,
            ranges_min=self._options.get("minPartitions"),
            size_max=self._options.get("maxRecordsPerPartition"),
        )
        return [RangePartition(each) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        return read_range(partition.range, self._options)

    def _end(self) -> StreamOffset:
        found = self._lookup.found()
        return StreamOffset(self._lookup.list_offsets(dict.fromkeys(found.partitions, LATEST)), found.ids)
