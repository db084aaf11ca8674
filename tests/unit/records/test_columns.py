"""Batches as Arrow columns."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.records.columns import microseconds
from penstock.records import kernel
from penstock.records.batch import Compression, NewRecord, Record, TimestampType
from penstock.records.columns import (
    HeaderColumn,
    column_builder,
    column_schema,
    decode_columns,
    iterate_columns,
    record_batch,
)
from penstock.records.errors import CorruptBatch, TooLarge
from strategies.records import BLOBS, CODECS, HEADERS

RECORDS = [
    NewRecord(1_700_000_000_123, b"k0", b"v0", (("name", b"content"), ("none", None))),
    NewRecord(-1, None, b"v1", ()),
    NewRecord(1_700_000_000_125, b"k2", None, (("größe", b""),)),
]


def test_columns_have_the_values_of_the_records() -> None:
    table = decode_columns(kernel.build_batch(RECORDS, base_offset=40))

    table.validate(full=True)
    assert table.schema == column_schema()
    assert table.to_pydict() == {
        "offset": [40, 41, 42],
        "timestamp": [
            datetime.datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=datetime.UTC),
            None,
            datetime.datetime(2023, 11, 14, 22, 13, 20, 125_000, tzinfo=datetime.UTC),
        ],
        "key": [b"k0", None, b"k2"],
        "value": [b"v0", b"v1", None],
        "headers": [
            [{"key": "name", "value": b"content"}, {"key": "none", "value": None}],
            [],
            [{"key": "größe", "value": b""}],
        ],
    }


def test_headers_may_be_omitted_or_returned_raw() -> None:
    batch = kernel.build_batch(RECORDS)

    without = decode_columns(batch, headers=HeaderColumn.NONE)
    raw = decode_columns(batch, headers=HeaderColumn.RAW)

    assert without.schema.names == ["offset", "timestamp", "key", "value"]
    assert raw.column("headers").to_pylist() == [
        b"\x08name\x0econtent\x08none\x01",
        None,
        b"\x0egr\xc3\xb6\xc3\x9fe\x00",
    ]
    raw.validate(full=True)


def test_a_fetch_response_is_one_table() -> None:
    first = kernel.build_batch(RECORDS, base_offset=0, compression=Compression.ZSTD)
    marker = kernel.build_batch([(1, bytes(4), bytes(6), ())], base_offset=3, is_control=True)
    second = kernel.build_batch(RECORDS, base_offset=4)
    incomplete = kernel.build_batch(RECORDS, base_offset=7)[:-1]

    table = decode_columns(first + marker + second + incomplete)

    assert table.column("offset").to_pylist() == [0, 1, 2, 4, 5, 6]


def test_no_bytes_are_an_empty_table() -> None:
    for headers in HeaderColumn:
        table = decode_columns(b"", headers=headers)
        table.validate(full=True)
        assert table.num_rows == 0
        assert table.schema == column_schema(headers)
    assert list(iterate_columns(b"")) == []


def test_only_the_requested_offsets_are_returned() -> None:
    data = kernel.build_batch(RECORDS, base_offset=10) + kernel.build_batch(RECORDS, base_offset=13)

    table = decode_columns(data, first_offset=12, end_offset=14)

    assert table.column("offset").to_pylist() == [12, 13]
    assert table.column("key").to_pylist() == [b"k2", b"k0"]
    table.validate(full=True)


def test_a_reader_can_skip_batches() -> None:
    data = kernel.build_batch(RECORDS, base_offset=10, producer_id=1, producer_epoch=0, base_sequence=0)
    data += kernel.build_batch(RECORDS, base_offset=13, producer_id=2, producer_epoch=0, base_sequence=0)

    table = decode_columns(data, keep=lambda header: header.producer_id == 2)

    assert table.column("offset").to_pylist() == [13, 14, 15]


def test_pieces_have_at_most_rows_max_rows() -> None:
    data = b"".join(bytes(kernel.build_batch(RECORDS, base_offset=3 * i)) for i in range(5))
    data += kernel.build_batch([NewRecord(i, None, b"v") for i in range(25)], base_offset=15)

    pieces = list(iterate_columns(data, rows_max=7))

    assert max(piece.num_rows for piece in pieces) <= 7
    assert [offset for piece in pieces for offset in piece.column("offset").to_pylist()] == list(range(40))


def test_append_time_replaces_the_timestamps_of_all_records() -> None:
    batch = kernel.build_batch(RECORDS[::2], timestamp_type=TimestampType.LOG_APPEND_TIME)

    times = decode_columns(batch).column("timestamp").to_pylist()

    assert len(set(times)) == 1
    assert times[0].microsecond == 125_000


def test_timestamp_types_can_be_returned_per_row() -> None:
    brokers, producers = (
        kernel.build_batch(RECORDS, timestamp_type=kind)
        for kind in (TimestampType.LOG_APPEND_TIME, TimestampType.CREATE_TIME)
    )
    for batches in ([producers], [brokers, brokers], [producers, brokers, brokers, producers, brokers]):
        builder = column_builder(HeaderColumn.NONE)
        for batch in batches:
            builder.append(batch)

        table = record_batch(builder.take(), HeaderColumn.NONE, timestamp_types=True)

        table.validate(full=True)
        assert table.schema == column_schema(HeaderColumn.NONE, timestamp_types=True)
        expected = [int(batch is brokers) for batch in batches for _ in RECORDS]
        assert table.column("timestamp_type").to_pylist() == expected


def test_damage_is_detected() -> None:
    batch = kernel.build_batch(RECORDS)
    batch[-1] ^= 1

    with pytest.raises(CorruptBatch):
        decode_columns(batch)


def test_a_decompression_bomb_is_refused() -> None:
    batch = kernel.build_batch([(1, None, bytes(1_000_000), ())], compression=Compression.LZ4)

    with pytest.raises(TooLarge):
        decode_columns(batch, limit_bytes=1_000_000)


def test_timestamps_out_of_range_are_clamped() -> None:
    assert microseconds(2**62) == 2**63 - 1
    assert microseconds(-(2**62)) == -(2**63)
    assert microseconds(-5) == -5_000


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.lists(st.builds(NewRecord, st.integers(0, 2**41), BLOBS, BLOBS, HEADERS), min_size=1, max_size=20),
        min_size=1,
        max_size=4,
    ),
    CODECS,
)
def test_columns_and_records_agree(batches: list[list[NewRecord]], codec: Compression) -> None:
    data = b""
    expected: list[Record] = []
    for records in batches:
        batch = bytes(kernel.build_batch(records, base_offset=len(expected), compression=codec))
        data += batch
        expected += kernel.iterate_records(batch)

    table = decode_columns(data)

    table.validate(full=True)
    rows = table.to_pylist()
    assert [row["offset"] for row in rows] == [record.offset for record in expected]
    assert [row["key"] for row in rows] == [record.key for record in expected]
    assert [row["value"] for row in rows] == [record.value for record in expected]
    assert [[(h["key"], h["value"]) for h in row["headers"]] for row in rows] == [
        list(record.headers) for record in expected
    ]
    assert table.column("timestamp").cast("int64").to_pylist() == [
        record.timestamp * 1000 for record in expected
    ]
