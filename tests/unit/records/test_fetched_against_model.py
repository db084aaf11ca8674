"""The records of a fetch response against a model: a plain function from the response's bytes to its records.

The model has no state between two calls. `FetchedRecords` does: it returns a few messages or rows at a time, and keeps
its position, the record that could not be returned, and the transactions that are being aborted.
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
from penstock.records import consuming, kernel
from penstock.records.arrow_layout import BytesColumn, Columns
from penstock.records.batch import Compression, NewRecord, Record, TimestampType
from penstock.records.columns import HeaderColumn
from penstock.records.consuming import FetchedRecords, Message
from penstock.records.control import end_transaction_batch
from penstock.records.crc import crc32c
from penstock.records.errors import CorruptBatch, RecordsError, UnsupportedMagic
from penstock.records.message_set import write_message_set
from penstock.records.old_messages import old_message_as_batch, read_old_message
from strategies.records import NEW_RECORDS, damaged_batches

EXAMPLES = int(os.environ.get("PENSTOCK_FUZZ_EXAMPLES", "200"))
LIMIT_BYTES = 100_000
PRODUCERS = st.integers(0, 1)
KINDS = st.sampled_from(["batch", "old", "transaction", "transaction", "marker", "marker"])
OLD_CODECS = st.sampled_from([Compression.NONE, Compression.GZIP, Compression.LZ4])


class Response(NamedTuple):
    data: bytes
    position: int
    aborted: list[tuple[int, int]] | None
    checks_crcs: bool


@st.composite
def responses(draw: st.DrawFn) -> Response:
    """What a reader might get: a log of some kind, damage or noise, read from the middle."""
    noise = st.tuples(damaged_batches() | st.binary(max_size=100), st.just([0]))
    data, offsets = draw(logs() | transaction_logs() | noise)
    starts = st.sampled_from(offsets)
    return Response(
        data,
        draw(starts) + draw(st.integers(0, 3)),
        draw(st.lists(st.tuples(PRODUCERS, starts), min_size=1, max_size=4) | st.none() | st.just([])),
        draw(st.booleans()),
    )


@st.composite
def transaction_logs(draw: st.DrawFn) -> tuple[bytes, list[int]]:
    """Short transactions of two producers, and the markers that end them: every entry has one record."""
    steps = draw(st.lists(st.tuples(st.sampled_from(["record", "abort", "commit"]), PRODUCERS), min_size=4))
    parts = [
        kernel.build_batch(
            [(1, None, b"%d" % offset, ())],
            base_offset=offset,
            producer_id=producer_id,
            is_transactional=True,
        )
        if step == "record"
        else marker(offset, producer_id, is_commit=step == "commit")
        for offset, (step, producer_id) in enumerate(steps)
    ]
    return b"".join(parts), list(range(len(parts) + 1))


@st.composite
def logs(draw: st.DrawFn) -> tuple[bytes, list[int]]:
    """A sequence of batches and old messages, the last one perhaps incomplete, and their first offsets."""
    parts: list[bytes] = []
    offsets = [draw(st.sampled_from([0, 5, 2**40]))]
    for _ in range(draw(st.integers(1, 8))):
        records = draw(st.lists(NEW_RECORDS, min_size=1, max_size=3))
        data, count = draw(entry_at(offsets[-1], records))
        parts.append(bytes(data))
        offsets.append(offsets[-1] + count)
    whole = b"".join(parts)
    return whole[: len(whole) - draw(st.sampled_from([0, 0, 0, 1, 30]))], offsets


@st.composite
def entry_at(draw: st.DrawFn, offset: int, records: list[NewRecord]) -> tuple[bytearray, int]:
    """An entry that begins at that offset, and how many offsets it takes."""
    kind = draw(KINDS)
    if kind == "marker":
        return marker(offset, draw(PRODUCERS), is_commit=draw(st.booleans())), 1
    if kind == "old":
        placed = [Record(offset + index, *record) for index, record in enumerate(records)]
        magic, codec = draw(st.integers(0, 1)), draw(OLD_CODECS)
        return write_message_set(placed, magic=magic, codec=codec), len(records)
    is_transactional = kind == "transaction"
    batch = kernel.build_batch(
        records,
        base_offset=offset,
        compression=draw(st.sampled_from(Compression)),
        leader_epoch=draw(st.integers(-1, 5)),
        producer_id=draw(PRODUCERS) if is_transactional else -1,
        is_transactional=is_transactional,
    )
    return batch, len(records)


def marker(offset: int, producer_id: int, *, is_commit: bool) -> bytearray:
    return end_transaction_batch(
        is_commit=is_commit,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=5_000,
        base_offset=offset,
    )


class Entry(NamedTuple):
    """A whole batch or old message of a response."""

    data: bytes
    is_old: bool
    is_shown: bool
    """False for control batches, and for batches of aborted transactions."""
    end_offset: int
    leader_epoch: int


def entries(response: Response) -> Iterator[Entry]:
    """The entries of a response, up to an incomplete one; raises at the first damaged one."""
    data, _, aborted, checks_crcs = response
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
    """What a reader gets of a response, where it continues, and which error ends it."""

    given: list[Any]
    next_offset: int
    error: type[Exception] | None


def expected_messages(response: Response) -> Reading:
    position = response.position
    messages: list[Message] = []
    try:
        for entry in entries(response):
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


def expected_rows(response: Response) -> Reading:
    position = response.position
    rows: list[Any] = []
    try:
        for entry in entries(response):
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
@given(responses(), st.integers(1, 5))
def test_the_messages_of_a_response_are_those_of_its_batches(response: Response, count_max: int) -> None:
    expected = expected_messages(response)
    records = fetched(response)
    taken: list[Message] = []
    error: type[Exception] | None = None
    try:
        while messages := records.take(count_max):
            assert len(messages) <= count_max
            taken += messages
            # Fewer than requested: the reader has also skipped the invisible entries that follow.
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
@given(responses(), st.integers(1, 5))
def test_the_columns_of_a_response_are_those_of_its_batches(response: Response, rows_max: int) -> None:
    expected = expected_rows(response)
    records = fetched(response)
    rows: list[Any] = []
    error: type[Exception] | None = None
    is_more = True
    while is_more:
        builder = consuming.ColumnBuilder(HeaderColumn.RAW)
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
@given(responses())
def test_the_next_fetch_begins_after_the_last_whole_batch(response: Response) -> None:
    end_offset, end_epoch = response.position, -1
    try:
        for entry in entries(response._replace(aborted=None, checks_crcs=False)):
            if entry.end_offset > end_offset:
                end_offset, end_epoch = entry.end_offset, entry.leader_epoch
    except RecordsError:
        pass

    records = fetched(response)

    assert (records.end_offset, records.end_epoch) == (end_offset, end_epoch)
    assert records.size_bytes == len(response.data)


def fetched(response: Response) -> FetchedRecords:
    return FetchedRecords(
        "orders",
        1,
        response.data,
        response.position,
        aborted=response.aborted,
        checks_crcs=response.checks_crcs,
        limit_bytes=LIMIT_BYTES,
    )
