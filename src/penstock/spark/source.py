"""The class that Spark knows as `penstock`: it reads options and hands over to readers and writers.

Spark makes and pickles it in processes of its own, for every query anew; nothing is kept in it.
"""

from __future__ import annotations

import os
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructField, StructType

from penstock.spark.columns import FIELDS, chosen
from penstock.spark.options import Options, Use


class PenstockDataSource(DataSource):
    """`spark.read.format("penstock")`, `df.write.format("penstock")`, and the same for streams."""

    cores: int | None = None
    """How many tasks the session runs at a time; None where it is not known."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType:
        options = Options.read(self.options, Use.READ)
        names = chosen(options.get("columns"), with_headers=options.get("includeHeaders"))
        fields: list[StructField] = [FIELDS[name] for name in names]
        return StructType(fields)

    def reader(self, schema: StructType) -> DataSourceReader:
        from penstock.spark.batch import PenstockReader

        return PenstockReader(Options.read(self.options, Use.BATCH_READ), cores=self._cores())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from penstock.spark.stream import PenstockStreamReader

        return PenstockStreamReader(Options.read(self.options, Use.STREAM_READ), cores=self._cores())

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from penstock.spark.sink.writer import batch_writer

        writer: Any = batch_writer(Options.read(self.options, Use.BATCH_WRITE), schema, overwrite)
        return writer  # type: ignore[no-any-return]

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from penstock.spark.sink.writer import stream_writer

        writer: Any = stream_writer(Options.read(self.options, Use.STREAM_WRITE), schema, overwrite)
        return writer  # type: ignore[no-any-return]

    def _cores(self) -> int:
        return self.cores or os.cpu_count() or 1
