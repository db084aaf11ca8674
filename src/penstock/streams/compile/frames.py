"""A changelog as a DataFrame: the last row of each key, decoded by the table's serdes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow

from penstock.streams.nouns import Windowed
from penstock.streams.serdes import Serde, SessionWindowed, TimeWindowed
from penstock.streams.windows import NEVER_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SPARK = {
    pyarrow.string(): "string",
    pyarrow.binary(): "binary",
    pyarrow.int64(): "bigint",
    pyarrow.int32(): "int",
    pyarrow.int16(): "smallint",
    pyarrow.float64(): "double",
    pyarrow.float32(): "float",
    pyarrow.bool_(): "boolean",
}


def latest_rows(
    spark: SparkSession,
    topic: str,
    key: Serde[Any],
    value: Serde[Any],
    client: Mapping[str, Any],
    *,
    by_time: bool = False,
) -> DataFrame:
    """Values of a type that Spark does not have become JSON text. The last row of a key is the one with the greatest
    offset, or with `by_time` the one with the latest timestamp, as in a versioned table."""
    from pyspark.sql import functions

    options = {f"kafka.{name}": str(setting) for name, setting in client.items()}
    rows = spark.read.format("penstock").options(**options, subscribe=topic).load()
    order = functions.struct("timestamp", "offset") if by_time else functions.col("offset")
    last = functions.max_by(functions.struct("value", "timestamp"), order).alias("last")
    latest = rows.where("key is not null").groupBy("key").agg(last).select("key", "last.*")
    decoding = Decoding(key, value)
    return latest.where("value is not null").mapInArrow(decoding, decoding.schema)


class Decoding:
    """Serialized keys and values as columns."""

    def __init__(self, key: Serde[Any], value: Serde[Any]) -> None:
        self._key = key
        self._value = value
        self._is_windowed = isinstance(key, TimeWindowed | SessionWindowed)
        inner = key.inner if isinstance(key, TimeWindowed | SessionWindowed) else key
        window = "start timestamp, end timestamp, " if self._is_windowed else ""
        self.schema = f"key {_type(inner)}, {window}value {_type(value)}, timestamp timestamp"

    def __call__(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            keys: Any = self._key.decode_column(batch.column("key"))
            columns: dict[str, Any] = {}
            if self._is_windowed:
                windows: list[Windowed[Any]] = keys
                columns["key"] = _column([window.key for window in windows], self._key.inner)  # type: ignore[attr-defined]
                columns["start"] = _times([window.start_ms for window in windows])
                columns["end"] = _times([window.end_ms for window in windows])
            else:
                columns["key"] = _column(keys, self._key)
            columns["value"] = _column(self._value.decode_column(batch.column("value")), self._value)
            columns["timestamp"] = batch.column("timestamp")
            yield pyarrow.RecordBatch.from_pydict(columns)


def _type(serde: Serde[Any]) -> str:
    kind = serde.arrow_type
    return "string" if kind is None else _SPARK[kind]


def _column(values: Any, serde: Serde[Any]) -> pyarrow.Array:
    kind = serde.arrow_type
    if kind is not None:
        return values if isinstance(values, pyarrow.Array) else pyarrow.array(values, kind)
    return pyarrow.array([_text(serde, value) for value in values], pyarrow.string())


def _text(serde: Serde[Any], value: Any) -> str | None:
    """As the serde writes it if that is text, otherwise as JSON."""
    data = serde.encode(value)
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return json.dumps(value, default=str)


def _times(times_ms: list[int]) -> pyarrow.Array:
    """The end of an unlimited window is null."""
    times_us = [None if time_ms == NEVER_MS else time_ms * 1000 for time_ms in times_ms]
    return pyarrow.array(times_us, pyarrow.int64()).cast(pyarrow.timestamp("us", tz="UTC"))
