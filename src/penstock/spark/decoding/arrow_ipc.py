"""Rows in Arrow's IPC form: a value is a batch of rows, so its column is an array of structs, ready for `inline`.

A value may be a stream, which begins with its own schema, or one message with nothing but data, which is read by the
schema that the query was given: both are what `penstock.serializers.ArrowSerializer` writes. Columns are found by name
and cast where nothing is lost. Data of strangers is checked in full before anything looks at it: Arrow's kernels trust
offsets.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, StructType

from penstock.spark.decoding import building
from penstock.spark.decoding.base import Decoded, Decoder, build_rows, read_rows
from penstock.spark.decoding.ddl import data_type_of
from penstock.spark.errors import BadOption


@dataclasses.dataclass(frozen=True)
class ArrowDecoder(Decoder):
    """Batches of rows."""

    written_by: bytes = b""
    """The schema of messages without one, as Arrow writes it; nothing where it is the one of the rows."""

    @classmethod
    def of(cls, text: str) -> ArrowDecoder:
        """By columns as Spark writes them, or by an Arrow schema as base64."""
        written_by = _arrow_schema(text)
        rows = (
            from_arrow_schema(pa.ipc.read_schema(pa.py_buffer(written_by)))
            if written_by
            else data_type_of(text)
        )
        if not isinstance(rows, StructType):
            raise BadOption(f"Arrow's values are rows: {text!r} must name columns, such as `id BIGINT`")
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
            raise ValueError(f"the value is a {message.type} of Arrow's, and no rows")
        table.validate(full=True)
        wanted = self._rows
        missing = [name for name in wanted.names if name not in table.column_names]
        if missing:
            raise ValueError(
                f"the rows have no column {', '.join(missing)}; they have {', '.join(table.column_names)}"
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
