"""Reads a part of topics once: `spark.read.format("penstock")`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.spark import plan
from penstock.spark.errors import BadOption
from penstock.spark.lookup import Lookup
from penstock.spark.offsets import ending_edge, resolve, starting_edge
from penstock.spark.options import Options
from penstock.spark.reading import RangePartition, read_range


class PenstockReader(DataSourceReader):
    def __init__(self, options: Options, *, cores: int) -> None:
        self._options = options
        self._cores = cores
        self._start = starting_edge(options, is_stream=False)
        self._end = ending_edge(options)

    def partitions(self) -> Sequence[InputPartition]:
        lookup = Lookup(self._options)
        found = lookup.found()
        if found.missing:
            raise BadOption(f"there is no topic {', '.join(found.missing)}")
        start = resolve(self._start, found.partitions, lookup.list_offsets)
        end = resolve(self._end, found.partitions, lookup.list_offsets)
        ranges = plan.cut(
            plan.ranges_between(start, end),
            cores=self._cores,
            ranges_min=self._options.get("minPartitions"),
            size_max=self._options.get("maxRecordsPerPartition"),
        )
        return [RangePartition(each) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):  # Spark asks for one task even where there is none
            return iter(())
        return read_range(partition.range, self._options)
