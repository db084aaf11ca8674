"""Rows as Arrow IPC messages.

With a schema that both sides know, a value is one message with only data. Without one it is a stream that begins with
its schema, which costs some hundred bytes per record and is better for values with many rows.

A value may be a RecordBatch, a Table, or one row of either (a `StructScalar`, or a dict with a schema). The
deserializer returns a RecordBatch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.client.serializers.base import Deserialize, Serialize
from penstock.client.serializers.libraries import need

if TYPE_CHECKING:
    import pyarrow

    from penstock.client.settings import ClientSettings


class ArrowSerializer:
    """Writes rows; with `schema`, records do not contain it."""

    def __init__(self, schema: pyarrow.Schema | None = None) -> None:
        self._arrow = need("pyarrow", extra="arrow")
        self._schema = schema

    def for_topic(self, topic: str, /, *, is_key: bool) -> Serialize:
        return self._stream if self._schema is None else self._message

    def _message(self, value: Any) -> bytes:
        batch = self._batch(value)
        if batch.schema != self._schema:
            batch = batch.cast(self._schema)
        data: bytes = batch.serialize().to_pybytes()
        return data

    def _stream(self, value: Any) -> bytes:
        batch = self._batch(value)
        sink = self._arrow.BufferOutputStream()
        with self._arrow.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        data: bytes = sink.getvalue().to_pybytes()
        return data

    def _batch(self, value: Any) -> Any:
        arrow = self._arrow
        if isinstance(value, arrow.RecordBatch):
            return value
        if isinstance(value, arrow.Table):
            return value.combine_chunks().to_batches()[0] if value.num_rows else _empty(arrow, value.schema)
        if isinstance(value, arrow.StructScalar):
            return arrow.RecordBatch.from_struct_array(arrow.array([value.as_py()], value.type))
        if isinstance(value, dict):
            return arrow.RecordBatch.from_pylist([value], schema=self._schema)
        raise TypeError("must be a RecordBatch, a Table, a StructScalar or a dict")


class ArrowDeserializer:
    """Reads rows, with the writer's schema, or without one if the writer had none."""

    def __init__(self, schema: pyarrow.Schema | None = None) -> None:
        self._arrow = need("pyarrow", extra="arrow")
        self._schema = schema

    def for_topic(self, topic: str, /, *, is_key: bool) -> Deserialize:
        return self._stream if self._schema is None else self._message

    def _message(self, data: bytes) -> Any:
        return self._arrow.ipc.read_record_batch(self._arrow.py_buffer(data), self._schema)

    def _stream(self, data: bytes) -> Any:
        with self._arrow.ipc.open_stream(data) as stream:
            batches = list(stream)
            if len(batches) == 1:
                return batches[0]
            # Other writers may have split the rows into several batches, or none.
            table = self._arrow.Table.from_batches(batches, stream.schema).combine_chunks()
            return table.to_batches()[0] if table.num_rows else _empty(self._arrow, stream.schema)


def serializer_by_settings(settings: ClientSettings | None) -> ArrowSerializer:
    return ArrowSerializer()


def deserializer_by_settings(settings: ClientSettings | None) -> ArrowDeserializer:
    return ArrowDeserializer()


def _empty(arrow: Any, schema: Any) -> Any:
    return arrow.RecordBatch.from_pylist([], schema=schema)
