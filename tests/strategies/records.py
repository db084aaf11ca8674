"""Records, batches and damage to them, and the kernel next to its plain reference."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import strategies as st

from oracle.records import batches as reference
from oracle.records import columns, messages
from penstock.records import kernel
from penstock.records.batch import (
    CRC_AT,
    CRC_START,
    HEADER_BYTES,
    Compression,
    NewRecord,
    Record,
    RecordRows,
    TimestampType,
)
from penstock.records.crc import crc32c

INT64_MAX = 2**63 - 1

# The names of `kernel`, from the modules of the reference.
REFERENCE = SimpleNamespace(**{**vars(reference), **vars(messages), **vars(columns)})

TIMESTAMPS = st.integers(0, 2**41) | st.sampled_from([-1, 0, 1_700_000_000_000, INT64_MAX, -INT64_MAX - 1])
BLOBS = st.none() | st.binary(max_size=20) | st.integers(60, 300).map(bytes)
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple)
NEW_RECORDS = st.builds(NewRecord, TIMESTAMPS, BLOBS, BLOBS, HEADERS)
CODECS = st.sampled_from(Compression)


@st.composite
def placed_records(draw: st.DrawFn) -> list[Record]:
    """Records with rising offsets and gaps, as after compaction."""
    offset = draw(st.integers(0, 2**60))
    records = []
    for record in draw(st.lists(NEW_RECORDS, min_size=1, max_size=6)):
        records.append(Record(offset, *record))
        offset += draw(st.integers(1, 200))
    return records


@st.composite
def record_rows(draw: st.DrawFn) -> RecordRows:
    ints, longs, ends = (
        st.integers(-(2**31), 2**31 - 1),
        st.integers(-INT64_MAX - 1, INT64_MAX),
        st.binary(max_size=70),
    )
    rows = draw(st.lists(st.tuples(ints, longs, ints), max_size=70))
    return RecordRows(
        draw(TIMESTAMPS),
        draw(ends),
        [number for number, _, _ in rows],
        draw(ends),
        [value_long for _, value_long, _ in rows],
        [value_int for _, _, value_int in rows],
        draw(ends),
    )


BATCH_FIELDS = st.fixed_dictionaries(
    {
        "compression": CODECS,
        "timestamp_type": st.sampled_from(TimestampType),
        "producer_id": st.integers(-1, INT64_MAX),
        "producer_epoch": st.integers(-1, 2**15 - 1),
        "base_sequence": st.integers(-1, 2**31 - 1),
        "is_transactional": st.booleans(),
        "is_control": st.booleans(),
        "leader_epoch": st.integers(-1, 2**31 - 1),
    }
)


@st.composite
def batches(draw: st.DrawFn) -> bytearray:
    records = draw(st.lists(NEW_RECORDS, min_size=1, max_size=6) | placed_records())
    return reference.build_batch(records, **draw(BATCH_FIELDS))


@st.composite
def damaged_batches(draw: st.DrawFn) -> bytes:
    """Batches with some bytes changed, cut or added; half of them with a matching checksum."""
    data = bytearray(draw(batches()))
    for _ in range(draw(st.integers(1, 3))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    data = data[: len(data) - draw(st.integers(0, 3))] + draw(st.binary(max_size=3))
    if draw(st.booleans()) and len(data) >= HEADER_BYTES:
        repair(data)
    return bytes(data)


def repair(data: bytearray) -> None:
    """Fix length and checksum, so that only the content is wrong."""
    Struct(">i").pack_into(data, 8, len(data) - 12)
    data[16] = 2
    with memoryview(data) as view:
        crc = crc32c(view[CRC_START:])
    Struct(">I").pack_into(data, CRC_AT, crc)


def implementations() -> list[Any]:
    """Parameters for tests of both the kernel and the reference."""
    return [pytest.param(REFERENCE, id="reference"), pytest.param(kernel, id="kernel")]


def outcome(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """The result of a call, or its exception, in a form that can be compared."""
    try:
        return function(*arguments, **named)
    except Exception as error:
        return type(error), str(error)
