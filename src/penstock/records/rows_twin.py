"""Rows of a table into a producer's batches, in plain Python: reference and fallback for `_rows.pyx`.

A `RowAppender` takes the columns of a table as plain buffers in Arrow's layout, and appends row by row, as `send`
would: by the partition that a row names, by the hash of its key, or to the current partition of records without one. It
knows nothing of Arrow, and reads only as far as the buffers' owner says that they go.

What it appended is told in spans: rows that stand behind one another in a batch. `span_of_row` has the number of each
row's span, so that of a batch that fails the row can be named.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from penstock.records.append_twin import ProducerBatch, murmur2, place_of
from penstock.records.batch import HEADER_BYTES, Buffer
from penstock.records.intake_twin import Intake, TopicQueues, largest_size

NO_PARTITION = -1

Header = tuple[str | None, bytes | None]

_INT32 = Struct("<i")
_INT64 = Struct("<q")


class NumberRows(NamedTuple):
    """A column of numbers, of as many bytes each as its user says."""

    data: Buffer
    validity: Buffer | None
    first: int
    """At which place of the buffers the column begins."""


class BytesRows(NamedTuple):
    offsets: Buffer
    data: Buffer
    validity: Buffer | None
    first: int
    is_large: bool
    """Whether offsets have 64 bits, not 32."""


class HeaderRows(NamedTuple):
    """Lists of names, in UTF-8, and values; an offset counts pairs."""

    offsets: Buffer
    validity: Buffer | None
    first: int
    names: BytesRows
    values: BytesRows


class Rows(NamedTuple):
    """Columns of a table; None where there is none. Partitions and topics have 32 bits, timestamps 64."""

    row_count: int
    value: BytesRows | None
    key: BytesRows | None = None
    headers: HeaderRows | None = None
    topic: NumberRows | None = None
    """Which of the topics, by index; without it all rows go to the first."""
    partition: NumberRows | None = None
    timestamp: NumberRows | None = None
    timestamps_per_ms: int = 1


class Row(NamedTuple):
    """One row by names; None for what it does not have."""

    topic: int | None
    key: bytes | None
    value: bytes | None
    headers: list[Header] | None
    partition: int | None
    timestamp_ms: int | None


def iterate_rows(rows: Rows) -> Iterator[Row]:
    """Every row, in Python."""
    return (row_at(rows, row) for row in range(rows.row_count))


class Fault(IntEnum):
    """Why a row cannot be sent."""

    NO_TOPIC = 1
    NO_SUCH_PARTITION = 2
    TOO_EARLY = 3
    NAMELESS_HEADER = 4
    TOO_LARGE = 5


class Span:
    """Rows of one table that stand behind one another in a batch."""

    def __init__(self, batch: ProducerBatch, first: int, number: int) -> None:
        self.batch = batch
        self.first = first
        self.count = 1
        self.number = number


class RowAppender:
    def __init__(
        self,
        intake: Intake,
        topics: list[TopicQueues],
        rows: Rows,
        *,
        record_bytes_max: int,
        stops_when_filled: bool = False,
    ) -> None:
        self._intake = intake
        self._topics = topics
        self._rows = rows
        self._record_bytes_max = record_bytes_max
        self._stops_when_filled = stops_when_filled
        self._last_spans: dict[tuple[str, int], Span] = {}
        self.spans: list[Span] = []
        self.span_of_row = array("i", bytes(4 * rows.row_count))
        self.next_row = 0
        self.wanted_bytes = 0
        """What the next row takes at most, where there was no room for it."""

    def fault(self) -> tuple[int, Fault] | None:
        """The first row that cannot be sent, and why; to be asked before any is appended."""
        for number, row in enumerate(iterate_rows(self._rows)):
            found = self._fault_of(row)
            if found is not None:
                return number, found
        return None

    def size_of(self, row: int) -> int:
        """What a row takes at most, in a batch of its own."""
        return _size_of(row_at(self._rows, row))

    def append(self) -> bool:
        """Append as many rows as there is room for; True when all have been. Where one stops when a batch is full,
        nothing is wanted but the same call again."""
        while self.next_row < self._rows.row_count:
            row = row_at(self._rows, self.next_row)
            topic = self._topics[row.topic or 0]
            before = self._closed_count()
            receipt = self._intake.append(
                topic, self._partition(row, topic), row.timestamp_ms, row.key, row.value, _plain(row.headers)
            )
            if receipt is None:
                self.wanted_bytes = _size_of(row)
                return False
            self._note(self.next_row, *place_of(receipt))
            self.next_row += 1
            if self._stops_when_filled and self._closed_count() != before:
                self.wanted_bytes = 0
                return self.next_row == self._rows.row_count
        return True

    def _note(self, row: int, batch: ProducerBatch, index: int) -> None:
        place = (batch.topic, batch.partition)
        span = self._last_spans.get(place)
        if span is not None and span.batch is batch and span.first + span.count == index:
            span.count += 1
        else:
            span = self._last_spans[place] = Span(batch, index, len(self.spans))
            self.spans.append(span)
        self.span_of_row[row] = span.number

    def _closed_count(self) -> int:
        return sum(len(queue.closed) for topic in self._topics for queue in topic.queues)

    def _fault_of(self, row: Row) -> Fault | None:
        if row.topic is None and self._rows.topic is not None:
            return Fault.NO_TOPIC
        partition_count = len(self._topics[row.topic or 0].queues)
        if row.partition is not None and not 0 <= row.partition < partition_count:
            return Fault.NO_SUCH_PARTITION
        if row.timestamp_ms is not None and row.timestamp_ms < 0:
            return Fault.TOO_EARLY
        if any(name is None for name, _ in row.headers or ()):
            return Fault.NAMELESS_HEADER
        return Fault.TOO_LARGE if _size_of(row) > self._record_bytes_max else None

    def _partition(self, row: Row, topic: TopicQueues) -> int:
        if row.partition is not None:
            return row.partition
        if row.key is None or self._intake.ignores_keys:
            return NO_PARTITION
        return (murmur2(row.key) & 0x7FFF_FFFF) % len(topic.queues)


def _size_of(row: Row) -> int:
    return HEADER_BYTES + largest_size(row.key, row.value, _plain(row.headers))


def _plain(headers: list[Header] | None) -> list[tuple[str, bytes | None]]:
    return [(name or "", content) for name, content in headers or ()]


def row_at(rows: Rows, row: int) -> Row:
    timestamp = _number_at(rows.timestamp, row, _INT64)
    return Row(
        topic=_number_at(rows.topic, row, _INT32),
        key=None if rows.key is None else _bytes_at(rows.key, row),
        value=None if rows.value is None else _bytes_at(rows.value, row),
        headers=None if rows.headers is None else _headers_at(rows.headers, row),
        partition=_number_at(rows.partition, row, _INT32),
        timestamp_ms=None if timestamp is None else timestamp // rows.timestamps_per_ms,
    )


def _headers_at(column: HeaderRows, row: int) -> list[Header] | None:
    at = column.first + row
    if not _is_valid(column.validity, at):
        return None
    pairs = []
    for index in range(*_pair(_INT32, column.offsets, at)):
        name = _bytes_at(column.names, index)
        pairs.append((None if name is None else name.decode(), _bytes_at(column.values, index)))
    return pairs


def _number_at(column: NumberRows | None, row: int, form: Struct) -> int | None:
    if column is None or not _is_valid(column.validity, column.first + row):
        return None
    number: int = form.unpack_from(column.data, (column.first + row) * form.size)[0]
    return number


def _bytes_at(column: BytesRows, row: int) -> bytes | None:
    at = column.first + row
    if not _is_valid(column.validity, at):
        return None
    start, end = _pair(_INT64 if column.is_large else _INT32, column.offsets, at)
    return bytes(memoryview(column.data)[start:end])


def _pair(form: Struct, offsets: Buffer, at: int) -> tuple[int, int]:
    """Where an element begins and ends."""
    return form.unpack_from(offsets, at * form.size)[0], form.unpack_from(offsets, (at + 1) * form.size)[0]


def _is_valid(validity: Buffer | None, at: int) -> bool:
    return validity is None or bool(memoryview(validity)[at >> 3] >> (at & 7) & 1)
