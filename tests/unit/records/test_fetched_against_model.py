"""The records of a fetch response against a model: a plain function from the response's bytes to all that is in it.

The model has no state between two calls. `FetchedRecords` does: it takes a few messages or rows at a time, and
remembers where it stands, which record could not be returned, and which transactions are being aborted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.records import batches as reference
from oracle.records import columns as reference_columns
from oracle.records.varint import wrap_int64
from penstock.records import kernel
from penstock.records.arrow_layout import BytesColumn, Columns
from penstock.records.batch import Compression, Record, TimestampType
from penstock.records.columns import HeaderColumn
from penstock.records.control import end_transaction_batch
from penstock.records.crc import crc32c
from penstock.records.errors import CorruptBatch, RecordsError, UnsupportedMagic
from penstock.records.kernel import FetchedRecords, Message
from penstock.records.message_set import write_message_set
from penstock.records.old_messages import old_message_as_batch, read_old_message
from strategies.records import NEW_RECORDS, damaged_batches

OFFSETS = st.integers(0, 20) | st.integers(0, 2**40)  # small ones meet each other


@st.composite
def partitions(draw: st.DrawFn) -> bytes:
    """Batches of many kinds in a row, whole or cut off."""
    parts = []
    offset = draw(OFFSETS)
    for _ in range(draw(st.integers(1, 4))):
        records = draw(st.lists(NEW_RECORDS, min_size=1, max_size=4))
        kind = draw(st.sampled_from(["batch", "old", "transaction", "marker"]))
        if kind == "marker":
            parts.append(
                bytes(
                    end_transaction_batch(
                        is_commit=draw(st.booleans()),
                        producer_id=draw(st.integers(0, 2)),
                        producer_epoch=0,
                        coordinator_epoch=0,
                        timestamp_ms=5_000,
                        base_offset=offset,
                    )
                )
            )
            offset += 1
            continue
        if kind == "old":
            placed = [Record(offset + index, *record) for index, record in enumerate(records)]
            old_codecs = st.sampled_from([Compression.NONE, Compression.GZIP, Compression.LZ4])
            magic, codec = draw(st.integers(0, 1)), draw(old_codecs)
            parts.append(bytes(write_message_set(placed, magic=magic, codec=codec)))
        else:
            is_transactional = kind == "transaction"
            fields = {"producer_id": draw(st.integers(0, 2)), "is_transactional": True}
            parts.append(
                bytes(
                    kernel.build_batch(
                        records,
                        base_offset=offset,
                        compression=draw(st.sampled_from(Compression)),
                        leader_epoch=draw(st.integers(-1, 5)),
                        **(fields if is_transactional else {}),
                    )
                )
            )
        offset += len(records)
    data = b"".join(parts)
    return data[: len(data) - draw(st.sampled_from([0, 0, 0, 1, 30]))]


EXAMPLES = int(os.environ.get("PENSTOCK_FUZZ_EXAMPLES", "200"))
LIMIT_BYTES = 100_000
RESPONSES = partitions() | damaged_batches() | st.binary(max_size=100)
POSITIONS = st.integers(0, 30) | OFFSETS
ABORTED = st.none() | st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30) | OFFSETS), max_size=3)


class Entry(NamedTuple):
    """A whole batch or old message of a response."""

    data: bytes
    is_old: bool
    is_shown: bool
    """False for control batches, and for batches of aborted transactions."""
    end_offset: int
    leader_epoch: int


def entries(data: bytes, aborted: list[tuple[int, int]] | None, checks_crcs: bool) -> Iterator[Entry]:
    """What a response holds, up to an incomplete entry; raises at the first one that is damaged."""
    open_aborts: list[tuple[int, int]] = list(aborted or [])
    aborting: set[int] = set()
    while len(data) >= 17:
        size, magic = int.from_bytes(data[8:12], "big", signed=True) + 12, data[16]
        is_too_short = size < (26 if magic < 2 else 61)
        if not is_too_short and size > len(data):
            return
        if magic > 2:
            raise UnsupportedMagic
        if is_too_short:
            raise CorruptBatch
        entry, data = data[:size], data[size:]
        if magic < 2:
            end_offset = wrap_int64(int.from_bytes(entry[:8], "big") + 1)
            yield Entry(entry, True, True, end_offset, -1)
            continue
        header = reference.read_header(entry)
        end_offset = wrap_int64(header.next_offset)
        if checks_crcs and header.crc != crc32c(entry[21:]):
            raise CorruptBatch
        is_aborted = False
        if header.has_producer_id and aborted is not None:
            begun = [abort for abort in open_aborts if abort[1] < end_offset]
            open_aborts = [abort for abort in open_aborts if abort not in begun]
            aborting |= {producer_id for producer_id, _ in begun}
            is_aborted = header.is_transactional and header.producer_id in aborting
        if is_aborted and header.is_control:
            record = next(reference.iterate_records(entry, limit_bytes=LIMIT_BYTES), None)
            if record is not None and (record.key or b"")[:4] == bytes(4):  # an abort marker
                aborting.discard(header.producer_id)
        is_shown = not header.is_control and not is_aborted
        yield Entry(entry, False, is_shown, end_offset, header.leader_epoch)


class Reading(NamedTuple):
    """What a reader of a response is given, where it goes on, and which error ends it."""

    given: list[Any]
    next_offset: int
    error: type[Exception] | None


def expected_messages(position: int, found: Iterator[Entry]) -> Reading:
    messages: list[Message] = []
    try:
        for entry in found:
            if entry.is_shown:
                for record, timestamp_type in records_of(entry):
                    if record.offset >= position:
                        epoch = None if entry.leader_epoch == -1 else entry.leader_epoch
                        messages.append(
                            Message(
                                "orders",
                                1,
                                record.offset,
                                record.timestamp,
                                timestamp_type,
                                record.key,
                                record.value,
                                tuple(record.headers),
                                epoch,
                            )
                        )
                        position = record.offset + 1
            position = max(position, entry.end_offset)
    except (RecordsError, OverflowError) as error:
        return Reading(messages, position, type(error))
    return Reading(messages, position, None)


def records_of(entry: Entry) -> Iterator[tuple[Record, TimestampType]]:
    if entry.is_old:
        records, timestamp_type = read_old_message(entry.data, LIMIT_BYTES)
        yield from ((record, timestamp_type) for record in records)
    else:
        timestamp_type = reference.read_header(entry.data).timestamp_type
        for record in reference.iterate_records(entry.data, limit_bytes=LIMIT_BYTES):
            yield record, timestamp_type


def expected_rows(position: int, found: Iterator[Entry]) -> Reading:
    rows: list[Any] = []
    try:
        for entry in found:
            if entry.is_shown:
                batch = old_message_as_batch(entry.data, LIMIT_BYTES) if entry.is_old else entry.data
                builder = reference_columns.ColumnBuilder(HeaderColumn.RAW)
                builder.append(batch, first_offset=position, limit_bytes=LIMIT_BYTES)
                rows += rows_of(builder.take())
            position = max(position, entry.end_offset)
    except (RecordsError, OverflowError) as error:
        return Reading(rows, position, type(error))
    return Reading(rows, position, None)


def rows_of(columns: Columns) -> list[tuple[int, int, bytes | None, bytes | None, bytes | None]]:
    """Offset, timestamp, key, value and raw headers of each row; a null timestamp is 0."""
    numbers = [memoryview(each.data).cast("q").tolist() for each in (columns.offset, columns.timestamp)]
    blobs = [cells_of(each) for each in (columns.key, columns.value, columns.raw_headers)]
    return list(zip(*numbers, *blobs, strict=True))


def cells_of(column: BytesColumn) -> list[bytes | None]:
    offsets = memoryview(column.offsets).cast("i").tolist()
    return [
        bytes(column.data[start:end]) if column.validity[row // 8] >> row % 8 & 1 else None
        for row, (start, end) in enumerate(pairwise(offsets))
    ]


@settings(max_examples=EXAMPLES, deadline=None)
@given(RESPONSES, POSITIONS, ABORTED, st.booleans(), st.integers(1, 5))
def test_the_messages_of_a_response_are_those_of_its_batches(
    data: bytes, position: int, aborted: list[tuple[int, int]] | None, checks_crcs: bool, count_max: int
) -> None:
    expected = expected_messages(position, entries(data, aborted, checks_crcs))
    records = fetched(data, position, aborted, checks_crcs)
    taken: list[Message] = []
    error: type[Exception] | None = None
    try:
        while messages := records.take(count_max):
            assert len(messages) <= count_max
            taken += messages
            # Fewer than were asked for: the reader has also gone past what follows and is not shown.
            is_past_hidden = len(messages) < count_max
            assert records.next_offset == messages[-1].offset + 1 or is_past_hidden
    except (RecordsError, OverflowError) as raised:
        error = type(raised)

    assert Reading(taken, records.next_offset, error) == expected
    assert records.is_exhausted == (error is None)
    if error is not None:
        with pytest.raises(error):
            next(records)


@settings(max_examples=EXAMPLES, deadline=None)
@given(RESPONSES, POSITIONS, ABORTED, st.booleans(), st.integers(1, 5))
def test_the_columns_of_a_response_are_those_of_its_batches(
    data: bytes, position: int, aborted: list[tuple[int, int]] | None, checks_crcs: bool, rows_max: int
) -> None:
    expected = expected_rows(position, entries(data, aborted, checks_crcs))
    records = fetched(data, position, aborted, checks_crcs)
    rows: list[Any] = []
    error: type[Exception] | None = None
    is_more = True
    while is_more:
        builder = kernel.ColumnBuilder(HeaderColumn.RAW)
        try:
            is_more = records.fill(builder, rows_max=rows_max)
        except (RecordsError, OverflowError) as raised:
            error, is_more = type(raised), False
        rows += rows_of(builder.take())

    # A batch that fails in the middle leaves rows in the builder, which its owner drops.
    given_before_error = rows if error is None else rows[: len(expected.given)]
    assert Reading(given_before_error, records.next_offset, error) == expected
    assert records.is_exhausted == (error is None)


@settings(max_examples=EXAMPLES, deadline=None)
@given(RESPONSES, POSITIONS)
def test_the_next_fetch_begins_behind_the_last_whole_batch(data: bytes, position: int) -> None:
    end_offset, end_epoch = position, -1
    try:
        for entry in entries(data, None, checks_crcs=False):
            if entry.end_offset > end_offset:
                end_offset, end_epoch = entry.end_offset, entry.leader_epoch
    except RecordsError:
        pass

    records = fetched(data, position, None, checks_crcs=True)

    assert (records.end_offset, records.end_epoch, records.size_bytes) == (end_offset, end_epoch, len(data))


def fetched(
    data: bytes, position: int, aborted: list[tuple[int, int]] | None, checks_crcs: bool
) -> FetchedRecords:
    return FetchedRecords(
        "orders", 1, data, position, aborted=aborted, checks_crcs=checks_crcs, limit_bytes=LIMIT_BYTES
    )
