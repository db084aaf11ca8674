"""Decodes rows in Arrow's IPC format: a value is a batch of rows, so its column is an array of structs, ready for
`inline`.

A value is either a stream, which starts with its own schema, or a single record batch message, which is read with
the query's schema; `penstock.serializers.ArrowSerializer` writes both. Columns are matched by name, and cast if
nothing is lost. Data is fully validated before use, because Arrow's kernels trust offsets.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.types import ArrayType, StructType

from penstock.spark.decoding import building
from penstock.spark.decoding.base import Decoded, Decoder, build_rows, read_rows
from penstock.spark.decoding.ddl import data_type_of
from penstock.spark.errors import BadOption
from penstock.spark.internals import spark_schema_of


@dataclasses.dataclass(frozen=True)
class ArrowDecoder(Decoder):
    """Batches of rows."""

    written_by: bytes = b""
    """The Arrow schema of messages without one, serialized; empty if it is the schema of the rows."""

    @classmethod
    def of(cls, text: str) -> ArrowDecoder:
        """From columns in Spark's notation, or from an Arrow schema as base64."""
        written_by = _arrow_schema(text)
        rows = (
            spark_schema_of(pa.ipc.read_schema(pa.py_buffer(written_by)))
            if written_by
            else data_type_of(text)
        )
        if not isinstance(rows, StructType):
            raise BadOption(f"Arrow values are rows, so {text!r} must name columns, such as `id BIGINT`")
        return cls(ArrayType(rows, containsNull=False), written_by)

    def _decode_present(self, column: pa.Array) -> Decoded:
        values, bad = read_rows(column.to_pylist(), self._read)
        return build_rows(values, self._build, bad)

    def _read(self, data: bytes) -> pa.Array:
        message = pa.ipc.read_message(data)
        if message.type == "schema":
            with pa.ipc.open_stream(data) as stream:
                table = stream.read_all()
        elif message.type == "record batch":
            table = pa.Table.from_batches([pa.ipc.read_record_batch(message, self._writer)])
        else:
            raise ValueError(f"the value is an Arrow {message.type} without rows")
        table.validate(full=True)
        wanted = self._rows
        missing = [name for name in wanted.names if name not in table.column_names]
        if missing:
            raise ValueError(
                f"the rows lack the columns {', '.join(missing)}; they have {', '.join(table.column_names)}"
            )
        cast = table.select(wanted.names).cast(wanted).combine_chunks()
        return pa.concat_arrays(cast.to_struct_array().chunks or [pa.nulls(0, self._struct)])

    def _build(self, values: list[Any]) -> pa.Array:
        arrays = [value.cast(self._struct) for value in values if value is not None]
        return building.list_of(
            values, pa.concat_arrays(arrays or [pa.nulls(0, self._struct)]), self.arrow_type
        )

    @cached_property
    def _struct(self) -> pa.DataType:
        return self.arrow_type.value_type

    @cached_property
    def _rows(self) -> pa.Schema:
        return pa.schema(list(self._struct))

    @cached_property
    def _writer(self) -> pa.Schema:
        return pa.ipc.read_schema(pa.py_buffer(self.written_by)) if self.written_by else self._rows


def _arrow_schema(text: str) -> bytes:
    try:
        data = base64.b64decode(text.strip(), validate=True)
        pa.ipc.read_schema(pa.py_buffer(data))
    except (binascii.Error, ValueError, pa.ArrowException, OSError):
        return b""
    return data
