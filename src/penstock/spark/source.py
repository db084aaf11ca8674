"""The data source class that Spark knows as `penstock`: it parses options and creates readers and writers.

Spark creates and pickles it in its own processes, anew for every query. Its only state is how keys and values are
decoded. That is fixed when Spark asks for the schema, and must not change afterwards, whatever a registry learns.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from penstock.spark.columns import FIELDS, chosen, of_schema
from penstock.spark.internals import is_planning_with_filters
from penstock.spark.options import Options, Use
from penstock.spark.reading import RangeReader
from penstock.spark.transforms import OPTION, unpack

if TYPE_CHECKING:
    from penstock.spark.decoding import Decoder

# Options that require decoding. Its modules are imported only then: most queries read bytes, and a task should start
# fast.
DECODING = ("keyFormat", "valueFormat", "keySchema", "valueSchema", "poison", "deadLetterTopic")

Decoders = Mapping[str, "Decoder"]


class PenstockDataSource(DataSource):
    """`spark.read.format("penstock")`, `df.write.format("penstock")`, and the same for streams."""

    cores: int | None = None
    """How many tasks the session runs at a time; None if unknown."""
    _decoders: Decoders | None = None

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType:
        options = Options.read(self.options, Use.READ)
        names = chosen(options.get("columns"), with_headers=options.get("includeHeaders"))
        self._decoders = decoders_of(options)
        return fields_of(names, self._decoders)

    def reader(self, schema: StructType) -> DataSourceReader:
        from penstock.spark.batch import FilteringReader, PenstockReader

        options = Options.read(self.options, Use.BATCH_READ)
        reader = range_reader(options, schema, self._decoders)
        if not (options.get("filterPushdown") and is_planning_with_filters()):
            return PenstockReader(options, reader, cores=self._cores())
        own = () if options.is_set(OPTION) else schema.names
        return FilteringReader(options, reader, cores=self._cores(), own_columns=own)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from penstock.spark.stream import PenstockStreamReader

        options = Options.read(self.options, Use.STREAM_READ)
        return PenstockStreamReader(
            options, range_reader(options, schema, self._decoders), cores=self._cores()
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from penstock.spark.sink.writer import batch_writer

        return batch_writer(Options.read(self.options, Use.BATCH_WRITE), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from penstock.spark.sink.writer import stream_writer

        return stream_writer(Options.read(self.options, Use.STREAM_WRITE), schema, overwrite)

    def _cores(self) -> int:
        return self.cores or os.cpu_count() or 1


def range_reader(options: Options, schema: StructType, decoders: Decoders | None) -> RangeReader:
    """The reader of tasks, for the source's schema or a user's selection of its columns."""
    if decoders is None:  # the user gave the schema
        decoders = decoders_of(options, schema)
    if options.is_set(OPTION):
        names = chosen(options.get("columns"), with_headers=options.get("includeHeaders"))
        then = [unpack(options.get(OPTION))]
    else:
        names, then = of_schema(schema, fields_of(FIELDS.names, decoders)), []
    if not decoders:
        return RangeReader(options, names, *then)
    from penstock.spark.decoding.poison import Decoding

    decoding = Decoding(options, names, decoders)
    return RangeReader(options, decoding.needs, decoding, *then)


def decoders_of(options: Options, schema: StructType | None = None) -> Decoders:
    """The decoders of keys and values by column; empty if they stay bytes."""
    if not any(map(options.is_set, DECODING)):
        return {}
    from penstock.spark.decoding import poison

    return poison.decoders_of(options, schema)


def fields_of(names: Iterable[str], decoders: Decoders) -> StructType:
    return StructType([decoders[name].field(name) if name in decoders else FIELDS[name] for name in names])
