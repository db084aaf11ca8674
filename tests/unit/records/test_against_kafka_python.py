"""kafka-python's own implementation reads what we write and writes what we read.

Its codecs other than gzip need packages that are not installed; for those the Java client is the oracle.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.records import kernel
from penstock.records.batch import Compression, NewRecord
from penstock.records.convert import down_convert, up_convert
from penstock.records.producing import murmur2
from strategies.records import HEADERS

with (
    warnings.catch_warnings()
):  # of kafka-python, which reads its own files in a way that Python 3.11 deprecates
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import murmur2 as kafka_murmur2
    from kafka.record.default_records import DefaultRecordBatchBuilder
    from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

CODECS = [Compression.NONE, Compression.GZIP]
DATA = st.none() | st.binary(max_size=20) | st.integers(60, 300).map(bytes)
RECORDS = st.lists(
    st.builds(NewRecord, st.integers(0, 2**41), DATA, st.binary(max_size=300), HEADERS),
    min_size=1,
    max_size=8,
)


def read_theirs(data: bytes) -> list[Any]:
    memory = MemoryRecords(bytes(data))
    found = []
    while memory.has_next():
        batch = memory.next_batch()
        assert batch.validate_crc()
        found += [(each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in batch]
    return found


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=60, deadline=None)
@given(records=RECORDS, base_offset=st.integers(0, 2**50))
def test_they_read_our_batches(codec: Compression, records: list[NewRecord], base_offset: int) -> None:
    batch = kernel.build_batch(records, base_offset=base_offset, compression=codec)

    assert read_theirs(batch) == [(base_offset + i, *record) for i, record in enumerate(records)]


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=60, deadline=None)
@given(records=RECORDS)
def test_we_read_their_batches(codec: Compression, records: list[NewRecord]) -> None:
    builder = DefaultRecordBatchBuilder(2, codec, False, 55, 4, 10, 10**6)
    for index, record in enumerate(records):
        builder.append(index, record.timestamp, record.key, record.value, list(record.headers))
    theirs = builder.build()

    header = kernel.check_batch(theirs)

    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (55, 4, 10)
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert [record[1:] for record in kernel.iterate_records(theirs)] == records
    if header.compression is Compression.NONE:
        ours = kernel.build_batch(
            records, producer_id=55, producer_epoch=4, base_sequence=10, leader_epoch=header.leader_epoch
        )
        assert ours == theirs


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=40, deadline=None)
@given(records=RECORDS)
def test_we_convert_their_message_sets_and_they_ours(
    magic: int, codec: Compression, records: list[NewRecord]
) -> None:
    builder = MemoryRecordsBuilder(magic, codec, 10**6)
    for record in records:
        builder.append(timestamp=record.timestamp, key=record.key, value=record.value, headers=[])
    builder.close()

    batch = up_convert(builder.buffer())

    assert [(record.key, record.value) for record in kernel.iterate_records(batch)] == [
        (record.key, record.value) for record in records
    ]
    expected = [
        (i, record.timestamp if magic else None, record.key, record.value, ())
        for i, record in enumerate(records)
    ]
    assert read_theirs(down_convert(batch, magic=magic)) == expected


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=40))
def test_we_hash_keys_as_they_do(key: bytes) -> None:
    assert murmur2(key) & 0xFFFF_FFFF == kafka_murmur2(key)
