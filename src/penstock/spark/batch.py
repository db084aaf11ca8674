"""Batch reads: `spark.read.format("penstock")`.

`FilteringReader` accepts the query's filters and is used only with the option `filterPushdown`: Spark keeps a narrowed
read with the DataFrame and reuses it for later queries, which would miss rows. Spark also rejects a reader that accepts
filters if its own setting for that is off, so `source` checks both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from penstock.spark.errors import BadOption
from penstock.spark.lookup import Found, Lookup
from penstock.spark.offsets import Offsets, ending_edge, resolve, starting_edge
from penstock.spark.options import Options
from penstock.spark.plan import TaskSplit, ranges_between
from penstock.spark.pushdown import Narrowing
from penstock.spark.reading import RangePartition, RangeReader


class PenstockReader(DataSourceReader):
    def __init__(self, options: Options, reader: RangeReader, *, cores: int) -> None:
        self._reader = reader
        self._tasks = TaskSplit.of(options, cores=cores, is_in_order=False)
        self._lookup = Lookup(options)
        self._start = starting_edge(options, is_stream=False)
        self._end = ending_edge(options)
        self._narrowing = Narrowing()

    def partitions(self) -> Sequence[InputPartition]:
        return self._lookup.look(self._plan)

    def _plan(self, found: Found) -> Sequence[InputPartition]:
        lookup = self._lookup
        found.check()
        start = resolve(self._start, found.partitions, lookup.list_offsets)
        end = resolve(self._end, found.partitions, lookup.list_offsets)
        _check_order(start, end)
        ranges = self._narrowing.narrow(ranges_between(start, end), lookup.list_offsets)
        return [RangePartition(each) for each in self._tasks.split(ranges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):  # Spark runs one task even if there are no partitions
            return iter(())
        return self._reader.read(partition.range)


class FilteringReader(PenstockReader):
    """The same, with the filters of the query."""

    def __init__(
        self, options: Options, reader: RangeReader, *, cores: int, own_columns: Collection[str]
    ) -> None:
        super().__init__(options, reader, cores=cores)
        self._own_columns = own_columns

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._narrowing, left = Narrowing.of(filters, self._own_columns)
        return left


def _check_order(start: Offsets, end: Offsets) -> None:
    for partition, offset in start.items():
        if offset > end[partition]:
            raise BadOption(
                f"{partition}: the starting offset {offset} is after the ending offset {end[partition]}"
            )
