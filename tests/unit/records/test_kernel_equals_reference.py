"""The kernel agrees with the plain reference: on good input, on damaged input and on noise.

Memory safety rests on this too. The reference cannot read out of bounds, so a kernel that raises the same errors on
the same input has made the same checks.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.records import messages as old_messages
from penstock.records import consuming, kernel
from penstock.records.arrow_layout import LISTED_HEADERS, NO_HEADERS, OFFSET_MAX, RAW_HEADERS
from penstock.records.batch import Record
from strategies.records import (
    BATCH_FIELDS,
    BLOBS,
    NEW_RECORDS,
    REFERENCE,
    TIMESTAMPS,
    batches,
    damaged_batches,
    outcome,
    placed_records,
    record_rows,
)

LIMIT_BYTES = 100_000
EXAMPLES = int(os.environ.get("PENSTOCK_FUZZ_EXAMPLES", "200"))

READERS = (
    "check_batch",
    "inspect_batch",
    "read_header",
    "scan_records",
    "read_payload",
)


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.lists(NEW_RECORDS | record_rows(), max_size=6) | placed_records(),
    BATCH_FIELDS,
    st.none() | st.integers(0, 2**60),
)
def test_the_same_batches_are_built(
    records: list[Any], fields: dict[str, Any], base_offset: int | None
) -> None:
    assert outcome(kernel.build_batch, records, base_offset=base_offset, **fields) == outcome(
        REFERENCE.build_batch, records, base_offset=base_offset, **fields
    )


@settings(max_examples=EXAMPLES, deadline=None)
@given(batches() | damaged_batches() | st.binary(max_size=200), st.integers(-2, 70))
def test_the_same_is_read(data: bytes, elsewhere: int) -> None:
    for position in (0, elsewhere):
        for name in READERS:
            named = (
                {}
                if name in ("check_batch", "inspect_batch", "read_header")
                else {"limit_bytes": LIMIT_BYTES}
            )
            assert outcome(getattr(kernel, name), data, position, **named) == outcome(
                getattr(REFERENCE, name), data, position, **named
            )


@settings(max_examples=EXAMPLES, deadline=None)
@given(batches() | damaged_batches())
def test_the_same_records_are_iterated(data: bytes) -> None:
    assert outcome(collect_records, kernel, data) == outcome(collect_records, REFERENCE, data)


def collect_records(implementation: Any, data: bytes) -> list[Any]:
    """Records, and the error that ended them if there was one."""
    iterator = implementation.iterate_records(data, limit_bytes=LIMIT_BYTES)
    records: list[Any] = []
    while True:
        following = outcome(next, iterator)
        records.append(following)
        if not isinstance(following, Record):
            return records


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(batches() | damaged_batches(), max_size=3).map(b"".join))
def test_the_same_sequence_of_batches_is_read(data: bytes) -> None:
    assert outcome(kernel.check_batches, data) == outcome(REFERENCE.check_batches, data)
    assert outcome(kernel.read_headers, data) == outcome(REFERENCE.read_headers, data)


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.lists(batches() | damaged_batches(), max_size=3),
    st.sampled_from([NO_HEADERS, LISTED_HEADERS, RAW_HEADERS]),
    st.integers(0, 2**61),
    st.integers(0, 2**62),
)
def test_the_same_columns_are_decoded(
    data: list[bytes], header_format: int, first_offset: int, end_offset: int
) -> None:
    for first, end in ((0, OFFSET_MAX), (first_offset, end_offset)):
        assert outcome(decode, consuming, data, header_format, first, end) == outcome(
            decode, REFERENCE, data, header_format, first, end
        )


def decode(implementation: Any, data: list[bytes], header_format: int, first: int, end: int) -> Any:
    builder = implementation.ColumnBuilder(header_format)
    for batch in data:
        builder.append(batch, 0, first_offset=first, end_offset=end, limit_bytes=LIMIT_BYTES)
    columns = builder.take()
    assert builder.row_count == 0
    return columns


MESSAGES = st.lists(
    st.builds(Record, st.integers(0, 2**60), TIMESTAMPS, BLOBS, BLOBS, st.just(())), max_size=5
)


@settings(max_examples=EXAMPLES, deadline=None)
@given(MESSAGES, st.integers(0, 1), st.integers(0, 2**40), st.integers(0, 3), st.integers(0, 1))
def test_the_same_messages_are_written_and_parsed(
    records: list[Record], magic: int, base_offset: int, codec: int, timestamp_type: int
) -> None:
    fields: dict[str, Any] = {
        "magic": magic,
        "base_offset": base_offset,
        "codec": codec,
        "timestamp_type": timestamp_type,
    }

    written = REFERENCE.write_messages(records, **fields)

    assert kernel.write_messages(records, **fields) == written
    assert kernel.parse_messages(written) == REFERENCE.parse_messages(written)


@st.composite
def damaged_messages(draw: st.DrawFn) -> bytes:
    data = bytearray(old_messages.write_messages(draw(MESSAGES), magic=draw(st.integers(0, 1))))
    for _ in range(draw(st.integers(0, 2))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    data = data[: len(data) - draw(st.integers(0, 3))]
    if len(data) > 16:
        message_size = min(max(int.from_bytes(data[8:12], "big", signed=True), 4), len(data) - 12)
        crc = old_messages.crc32(data[16 : 12 + message_size])
        data[12:16] = crc.to_bytes(4, "big")
    return bytes(data)


@settings(max_examples=EXAMPLES, deadline=None)
@given(damaged_messages() | st.binary(max_size=100))
def test_damaged_messages_raise_the_same_error(data: bytes) -> None:
    assert outcome(kernel.parse_messages, data) == outcome(REFERENCE.parse_messages, data)
