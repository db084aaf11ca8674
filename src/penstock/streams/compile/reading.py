"""What a source emits: rows of the data source as records of a topology, decoded by the serdes of their topic.

A record that cannot be decoded is a failure of the source, reported with its topic, partition and offset. The
application's `deserialization.exception.handler` decides whether it stops the application.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pyarrow
import pyarrow.compute as pc

from penstock.streams.compile.columns import Column, Columns, Rows, as_list
from penstock.streams.compile.failures import OperatorFailed
from penstock.streams.interpret.engine import source_reads, without_time
from penstock.streams.interpret.stateless import TIME_MAX_MS
from penstock.streams.nouns import Headers
from penstock.streams.serdes import Serde
from penstock.streams.topology import Node, Source

Failing = Callable[[OperatorFailed, int], None]

NAMES = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
"""The columns requested from the data source."""


def records_of(
    batch: pyarrow.RecordBatch, node: Node, topic: str, failing: Failing, *, is_raw: bool = False
) -> Columns:
    """The records of one batch of one partition. `node` has the serdes: a source, or the owner of an internal topic;
    `is_raw` means there are none."""
    times = pc.divide(batch.column("timestamp").cast(pyarrow.int64()), 1000)
    rows = numpy.arange(batch.num_rows, dtype=numpy.int64)
    kept = numpy.ones(batch.num_rows, bool)
    keys, values = batch.column("key"), batch.column("value")
    if not is_raw:
        keys = _decoded(keys, node.key, topic, node.name, failing, kept, is_key=True)
        values = _decoded(values, node.value, topic, node.name, failing, kept, is_key=False)
    records = Columns(keys, values, rows, numpy.asarray(times), _headers(batch.column("headers")))
    if not kept.all():
        records = records.take(numpy.flatnonzero(kept))
    if isinstance(node, Source) and node.timestamp is not None and source_reads(node, topic):
        records = _timed(records, node, failing)
    elif len(records) and int(records.times.min()) < 0:
        for at in numpy.flatnonzero(records.times < 0).tolist():
            failing(OperatorFailed(node.name, without_time(int(records.times[at]))), int(records.rows[at]))
        records = records.take(numpy.flatnonzero(records.times >= 0))
    return records


def _decoded(
    column: pyarrow.Array,
    serde: Serde[Any] | None,
    topic: str,
    operator: str,
    failing: Failing,
    kept: Rows,
    *,
    is_key: bool,
) -> Column:
    if serde is None:
        return column
    serde = serde.for_topic(topic, is_key=is_key)
    try:
        return serde.decode_column(column)
    except Exception:
        # One of them cannot be decoded: try each, to find out which.
        found: list[Any] = []
        for row, data in enumerate(column.to_pylist()):
            try:
                found.append(serde.decode(data))
            except Exception as error:
                failing(OperatorFailed(operator, error), row)
                kept[row] = False
                found.append(None)
        return found


def _timed(records: Columns, node: Source, failing: Failing) -> Columns:
    """By the user's function; a negative time drops the record, as in Kafka Streams."""
    assert node.timestamp is not None
    times: list[int] = []
    places: list[int] = []
    for at, (key, value) in enumerate(zip(as_list(records.keys), as_list(records.values), strict=True)):
        try:
            time_ms = int(node.timestamp(key, value))
            if time_ms > TIME_MAX_MS:
                raise ValueError(f"a timestamp must be at most {TIME_MAX_MS} ms, not {time_ms}")
            if time_ms >= 0:
                times.append(time_ms)
                places.append(at)
        except Exception as error:
            failing(OperatorFailed(node.name, error), int(records.rows[at]))
    taken = records.take(numpy.array(places, numpy.int64))
    return Columns(taken.keys, taken.values, taken.rows, numpy.array(times, numpy.int64), taken.headers)


def _headers(column: pyarrow.Array) -> list[Headers] | None:
    if column.null_count == len(column) or len(column.values) == 0:
        return None
    return [
        () if found is None else tuple((header["key"], header["value"]) for header in found)
        for found in column.to_pylist()
    ]
