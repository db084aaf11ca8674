"""The kernel and its plain reference; and the error of an installation without the kernel."""

from __future__ import annotations

import subprocess
import sys
from struct import pack_into
from types import SimpleNamespace

import pytest

from penstock.records.batch import Compression, NewRecord, Record, RecordRows, TimestampType
from penstock.records.errors import (
    CorruptBatch,
    InvalidBatch,
    RecordsError,
    TooLarge,
    UnsupportedCompression,
    UnsupportedMagic,
)
from strategies.records import implementations, repair

RECORDS = [
    NewRecord(1000, b"k0", b"v0", (("name", b"content"), ("empty", None))),
    NewRecord(1005, None, b"v1", ()),
    NewRecord(1003, b"k2", None, ()),
]


@pytest.fixture(params=implementations())
def kernels(request: pytest.FixtureRequest) -> SimpleNamespace:
    implementation: SimpleNamespace = request.param
    return implementation


def test_a_batch_returns_its_records(kernels: SimpleNamespace) -> None:
    batch = kernels.build_batch(RECORDS, base_offset=40)

    records = list(kernels.iterate_records(batch))

    assert records == [Record(40 + i, *record) for i, record in enumerate(RECORDS)]
    assert isinstance(records[0], Record)


def test_plain_tuples_are_records_too(kernels: SimpleNamespace) -> None:
    assert kernels.build_batch([tuple(record) for record in RECORDS]) == kernels.build_batch(RECORDS)


def test_rows_are_expanded_to_records(kernels: SimpleNamespace) -> None:
    rows = RecordRows(1001, b"key", [1, -2], b"a", [2**63 - 1, 0], [-1, 2**31 - 1], b"z")

    batch = kernels.build_batch([RECORDS[0], rows, RECORDS[1]])

    assert [(record.timestamp, record.key, record.value) for record in kernels.iterate_records(batch)] == [
        (1000, b"k0", b"v0"),
        (1001, b"key\0\0\0\1", b"a\x7f" + b"\xff" * 7 + b"\xff" * 4 + b"z"),
        (1001, b"key\xff\xff\xff\xfe", b"a" + bytes(8) + b"\x7f\xff\xff\xffz"),
        (1005, None, b"v1"),
    ]
    assert kernels.check_batch(batch).last_offset_delta == 3


@pytest.mark.parametrize(
    "columns",
    [([1], [2], []), ([], [2], [3]), ([2**31], [2], [3]), ([1], [2**63], [3]), ([1], [2], [2**31])],
)
def test_incomplete_rows_are_refused(
    kernels: SimpleNamespace, columns: tuple[list[int], list[int], list[int]]
) -> None:
    numbers, longs, ints = columns

    with pytest.raises((ValueError, OverflowError)):
        kernels.build_batch([RECORDS[0], RecordRows(1, b"", numbers, b"", longs, ints, b"")])


def test_records_with_offsets_keep_them(kernels: SimpleNamespace) -> None:
    records = [Record(7, 1, b"a", b"b"), Record(9, 2, b"c", b"d")]

    batch = kernels.build_batch(records)

    assert list(kernels.iterate_records(batch)) == records
    header = kernels.check_batch(batch)
    assert (header.base_offset, header.last_offset, header.record_count) == (7, 9, 2)


def test_keys_and_values_may_be_any_buffer(kernels: SimpleNamespace) -> None:
    batch = kernels.build_batch([(1, bytearray(b"key"), memoryview(b"value"), [("h", bytearray(b"x"))])])

    assert list(kernels.iterate_records(batch)) == [Record(0, 1, b"key", b"value", (("h", b"x"),))]


@pytest.mark.parametrize(
    "records",
    [
        [],
        [(1, b"k", b"v")],
        [Record(5, 1, b"k", b"v"), Record(5, 1, b"k", b"v")],
        [Record(5, 1, b"k", b"v"), Record(4, 1, b"k", b"v")],
        [Record(0, 1, b"k", b"v"), Record(2**31, 1, b"k", b"v")],
    ],
    ids=["none", "too short", "same offset", "falling offset", "offsets too far apart"],
)
def test_records_that_do_not_fit_a_batch_are_refused(kernels: SimpleNamespace, records: list[Record]) -> None:
    with pytest.raises(ValueError):
        kernels.build_batch(records)


@pytest.mark.parametrize(
    "record", [(1, "text", b"v", ()), (1, b"k", 5, ()), (1, b"k", b"v", [(b"bytes", b"")])]
)
def test_text_and_numbers_are_not_accepted_as_keys_or_values(
    kernels: SimpleNamespace, record: object
) -> None:
    with pytest.raises((TypeError, AttributeError)):
        kernels.build_batch([record])


@pytest.mark.parametrize("codec", Compression)
def test_compressed_records_are_read_back(kernels: SimpleNamespace, codec: Compression) -> None:
    batch = kernels.build_batch(RECORDS, compression=codec)

    assert kernels.check_batch(batch).compression is codec
    assert [record[1:] for record in kernels.iterate_records(batch)] == RECORDS


def test_a_level_is_passed_to_the_codec(kernels: SimpleNamespace) -> None:
    records = [(i, b"%d" % i, b"value %d" % (i * i), ()) for i in range(2000)]

    sizes = [len(kernels.build_batch(records, compression=Compression.GZIP, level=level)) for level in (1, 9)]

    assert sizes[0] > sizes[1]


def test_iterating_obeys_the_limit_of_the_caller(kernels: SimpleNamespace) -> None:
    batch = kernels.build_batch([(1, None, bytes(100_000), ())], compression=Compression.ZSTD)

    with pytest.raises(TooLarge):
        list(kernels.iterate_records(batch, limit_bytes=99_999))


def test_a_flipped_bit_is_found_wherever_it_is(kernels: SimpleNamespace) -> None:
    batch = kernels.build_batch(RECORDS)
    outside_checksum = {*range(8), *range(12, 16)}  # base offset and leader epoch, which are assigned

    for index in range(len(batch)):
        damaged = bytearray(batch)
        damaged[index] ^= 0x10
        if index in outside_checksum:
            kernels.check_batch(damaged)
        else:
            with pytest.raises(RecordsError):
                kernels.check_batch(damaged)


@pytest.mark.parametrize("size", [0, 16, 60, 61, 80])
def test_a_truncated_batch_is_corrupt(kernels: SimpleNamespace, size: int) -> None:
    batch = kernels.build_batch(RECORDS)

    with pytest.raises(CorruptBatch):
        kernels.check_batch(batch[:size])


@pytest.mark.parametrize("position", [-1, -61, 10_000, 2**62])
def test_positions_outside_of_the_buffer_are_refused(kernels: SimpleNamespace, position: int) -> None:
    batch = kernels.build_batch(RECORDS)

    for function in (kernels.check_batch, kernels.read_header, kernels.iterate_records, kernels.scan_records):
        with pytest.raises(CorruptBatch):
            function(batch, position)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48, 2**31 - 1])
def test_a_wrong_length_is_corrupt(kernels: SimpleNamespace, length: int) -> None:
    batch = kernels.build_batch(RECORDS)
    pack_into(">i", batch, 8, length)

    with pytest.raises(CorruptBatch):
        kernels.check_batch(batch)
    with pytest.raises(CorruptBatch):
        kernels.iterate_records(batch)


@pytest.mark.parametrize("count", [-1, 0, 2, 4, 2**31 - 1])
def test_a_wrong_count_is_invalid(kernels: SimpleNamespace, count: int) -> None:
    batch = kernels.build_batch(RECORDS)
    pack_into(">i", batch, 57, count)
    repair(batch)

    with pytest.raises(InvalidBatch):
        kernels.check_batch(batch)
    with pytest.raises(InvalidBatch):
        list(kernels.iterate_records(batch))


def test_fewer_offsets_than_records_are_invalid(kernels: SimpleNamespace) -> None:
    batch = kernels.build_batch(RECORDS)
    pack_into(">i", batch, 23, 1)
    repair(batch)

    with pytest.raises(InvalidBatch):
        kernels.check_batch(batch)


def test_an_empty_batch_that_compaction_left_is_valid(kernels: SimpleNamespace) -> None:
    batch = kernels.build_batch(RECORDS)[:61]
    pack_into(">i", batch, 57, 0)
    repair(batch)

    header = kernels.check_batch(batch)

    assert (header.record_count, header.last_offset_delta) == (0, 2)
    assert list(kernels.iterate_records(batch)) == []


def test_a_record_that_contradicts_itself_is_invalid(kernels: SimpleNamespace) -> None:
    batch = kernels.build_batch([(1, b"key", b"value", ())])
    key_size_at = 61 + 1 + 1 + 1 + 1  # length, attributes, timestamp, offset
    assert batch[key_size_at] == 6
    batch[key_size_at] = 8
    repair(batch)

    with pytest.raises(InvalidBatch, match="record 0 of the batch at 0 is malformed"):
        kernels.check_batch(batch)


def test_an_unknown_codec_is_named(kernels: SimpleNamespace) -> None:
    batch = kernels.build_batch(RECORDS)
    batch[22] |= 5
    repair(batch)

    with pytest.raises(UnsupportedCompression, match="no codec 5"):
        kernels.check_batch(batch)


def test_another_format_is_distinguished_from_damage(kernels: SimpleNamespace) -> None:
    message = kernels.write_messages([Record(0, 1, b"k", bytes(100))], magic=1)

    with pytest.raises(UnsupportedMagic):
        kernels.check_batch(message)


def test_every_batch_of_a_buffer_is_checked(kernels: SimpleNamespace) -> None:
    batch = kernels.build_batch(RECORDS)
    damaged = bytearray(batch)
    damaged[-1] ^= 1

    assert len(kernels.check_batches(bytes(batch) * 3)) == 3
    assert kernels.check_batches(b"") == []
    with pytest.raises(CorruptBatch, match=f"the batch at {len(batch)}"):
        kernels.check_batches(batch + damaged)
    with pytest.raises(CorruptBatch):
        kernels.check_batches(batch + batch[:-1])


def test_headers_are_read_up_to_an_incomplete_batch(kernels: SimpleNamespace) -> None:
    batch = kernels.build_batch(RECORDS)
    header = kernels.read_header(batch)

    assert kernels.read_headers(batch + batch + batch[:-1]) == [header, header]
    assert kernels.read_headers(batch + batch[:30]) == [header]
    assert kernels.read_headers(b"") == []


def test_a_scan_returns_what_a_broker_needs(kernels: SimpleNamespace) -> None:
    scan = kernels.scan_records(kernels.build_batch(RECORDS, compression=Compression.SNAPPY))

    payload = kernels.read_payload(kernels.build_batch(RECORDS))
    assert scan == (1000, 1005, 1, True, len(payload))


def test_an_inspection_is_a_check_and_a_scan_in_one(kernels: SimpleNamespace) -> None:
    batch = kernels.build_batch(RECORDS)
    compressed = kernels.build_batch(RECORDS, compression=Compression.LZ4)

    assert kernels.inspect_batch(batch) == (kernels.check_batch(batch), kernels.scan_records(batch))
    assert kernels.inspect_batch(compressed) == (kernels.check_batch(compressed), None)
    with pytest.raises(CorruptBatch):
        kernels.inspect_batch(batch[:-1])


def test_a_scan_sees_gaps_in_offsets(kernels: SimpleNamespace) -> None:
    batch = kernels.build_batch([Record(7, 1, b"a", b"b"), Record(9, 2, b"c", b"d")])

    assert not kernels.scan_records(batch).has_consecutive_offsets


def test_append_time_replaces_record_timestamps(kernels: SimpleNamespace) -> None:
    batch = kernels.build_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME)

    assert [record.timestamp for record in kernels.iterate_records(batch)] == [1005] * 3


def test_a_header_name_that_is_not_utf_8_is_corrected(kernels: SimpleNamespace) -> None:
    batch = kernels.build_batch([(1, b"k", b"v", (("AB", b"x"),))])
    at = batch.index(b"AB")
    batch[at] = 0xFF
    repair(batch)

    assert next(kernels.iterate_records(batch)).headers == (("\ufffdB", b"x"),)


def test_an_iterator_keeps_its_buffer_from_shrinking(kernels: SimpleNamespace) -> None:
    batch = kernels.build_batch(RECORDS)
    records = kernels.iterate_records(batch)

    with pytest.raises(BufferError):
        batch.clear()

    assert len(list(records)) == 3


@pytest.mark.parametrize("count", [2, 5], ids=["too many records", "too few"])
def test_an_iterator_that_failed_stays_at_its_end(kernels: SimpleNamespace, count: int) -> None:
    batch = kernels.build_batch(RECORDS)
    pack_into(">i", batch, 57, count)
    records = kernels.iterate_records(batch)
    for _ in range(min(count, len(RECORDS))):
        next(records)

    with pytest.raises(InvalidBatch):
        next(records)

    assert list(records) == []


@pytest.mark.parametrize(
    ("module", "missing"),
    [
        ("penstock.records.kernel", "_kernel"),
        ("penstock.records.consuming", "_buffers"),
        ("penstock.records.producing", "_rows"),
        ("penstock", "_appender"),
    ],
)
def test_without_the_compiled_kernel_the_import_error_explains_what_to_do(module: str, missing: str) -> None:
    """A missing kernel used to be replaced silently by plain Python, which is many times slower."""
    program = (
        f"import sys; sys.modules['penstock.records.{missing}'] = None\n"
        f"import {module}\n"
        "from penstock import Producer"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert answer.returncode == 1
    reported = answer.stderr.splitlines()[-1]
    assert f"penstock.records.{missing}" in reported
    assert "make install" in reported
    assert "pip install" in reported


def test_arrow_is_not_imported_unless_columns_are_used() -> None:
    program = (
        "import sys, penstock.records.columns, penstock.records.convert; print('pyarrow' in sys.modules)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert answer.stdout.strip() == "False"
