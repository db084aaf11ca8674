"""Conversion between message sets and batches, and from codec to codec."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.records import convert, kernel
from penstock.records.batch import Compression, NewRecord, Record, TimestampType, assign_offsets
from penstock.records.convert import down_convert, recompress, up_convert
from penstock.records.errors import InvalidBatch, InvalidTimestamp, TooLarge, UnsupportedCompression
from penstock.records.message_set import read_message_set, write_message_set
from strategies.records import BLOBS, repair

RECORDS = [
    NewRecord(1000, b"k0", b"v0", (("name", b"content"),)),
    NewRecord(1004, None, b"v1", ()),
    NewRecord(1002, b"k2", None, ()),
]
OLD = [Record(i, *record[:3]) for i, record in enumerate(RECORDS)]
OLD_CODECS = [codec for codec in Compression if codec is not Compression.ZSTD]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_message_sets_become_one_batch(magic: int, codec: Compression) -> None:
    sent = write_message_set([r._replace(offset=r.offset + 5) for r in OLD], magic=magic, codec=codec)

    batch = up_convert(sent)

    header = kernel.check_batch(batch)
    assert header.size_bytes == len(batch)
    assert header.compression is codec
    assert (header.base_offset, header.last_offset_delta, header.producer_id) == (0, 2, -1)
    assert header.max_timestamp == (1004 if magic else -1)
    expected = [r if magic else r._replace(timestamp=-1) for r in OLD]
    assert list(kernel.iterate_records(batch)) == expected


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_batches_become_message_sets_for_old_consumers(magic: int, codec: Compression) -> None:
    batch = kernel.build_batch(RECORDS, base_offset=500, compression=codec)

    message_set = read_message_set(down_convert(batch, magic=magic))

    assert message_set.codec is codec
    assert [(r.offset, r.key, r.value) for r in message_set.records] == [
        (500 + r.offset, r.key, r.value) for r in OLD
    ]
    assert [r.timestamp for r in message_set.records] == ([1000, 1004, 1002] if magic else [-1] * 3)


def test_append_time_survives_down_conversion() -> None:
    batch = kernel.build_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME)

    message_set = read_message_set(down_convert(batch, magic=1))

    assert message_set.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [r.timestamp for r in message_set.records] == [1004] * 3


def test_down_conversion_skips_control_batches_and_incomplete_ones() -> None:
    data = kernel.build_batch(RECORDS, base_offset=0)
    marker = kernel.build_batch([(1, bytes(4), bytes(6), ())], base_offset=3, is_control=True)
    more = kernel.build_batch(RECORDS, base_offset=4)

    message_set = read_message_set(down_convert(data + marker + more + more[:-1], magic=1))

    assert [record.offset for record in message_set.records] == [0, 1, 2, 4, 5, 6]


def test_only_control_batches_are_an_empty_set() -> None:
    marker = kernel.build_batch([(1, bytes(4), bytes(6), ())], is_control=True)

    assert down_convert(marker, magic=1) == b""


def test_uncompressed_records_before_the_requested_offset_are_skipped() -> None:
    plain = kernel.build_batch(RECORDS, base_offset=10)
    compressed = kernel.build_batch(RECORDS, base_offset=13, compression=Compression.GZIP)

    message_set = read_message_set(down_convert(plain + compressed, magic=1, first_offset=11))

    assert [record.offset for record in message_set.records] == [11, 12, 13, 14, 15]


def test_zstd_cannot_be_sent_to_old_consumers() -> None:
    batch = kernel.build_batch(RECORDS, compression=Compression.ZSTD)

    with pytest.raises(UnsupportedCompression):
        down_convert(batch, magic=1)


def test_batches_before_zstd_are_sent_to_old_consumers() -> None:
    plain, zstd = kernel.build_batch(RECORDS), kernel.build_batch(RECORDS, compression=Compression.ZSTD)

    assert down_convert(plain + zstd + plain, magic=1) == down_convert(plain, magic=1)


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_a_batch_of_very_many_records_is_converted_in_pieces(
    codec: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convert, "RECORDS_AT_ONCE", 7)
    records = [NewRecord(1000 + n, None, b"%d" % n, ()) for n in range(50)]
    batch = kernel.build_batch(records, base_offset=500, compression=codec)

    message_set = read_message_set(down_convert(batch, magic=1))

    assert [(r.offset, r.value) for r in message_set.records] == [(500 + n, b"%d" % n) for n in range(50)]


def test_a_producer_may_not_send_a_wrapper_with_other_messages() -> None:
    sent = write_message_set(OLD, magic=1, codec=Compression.GZIP)

    with pytest.raises(InvalidBatch, match="only one"):
        up_convert(sent + sent)


def test_a_producer_may_not_use_log_append_time() -> None:
    sent = write_message_set(OLD, magic=1, timestamp_type=TimestampType.LOG_APPEND_TIME)

    with pytest.raises(InvalidTimestamp):
        up_convert(sent)


def test_a_negative_timestamp_is_refused() -> None:
    with pytest.raises(InvalidTimestamp):
        up_convert(write_message_set([Record(0, -2, b"k", b"v")], magic=1))


@pytest.mark.parametrize("before", Compression)
@pytest.mark.parametrize("after", Compression)
def test_records_survive_another_codec(before: Compression, after: Compression) -> None:
    batch = kernel.build_batch(
        RECORDS, compression=before, producer_id=7, producer_epoch=1, base_sequence=30, is_transactional=True
    )
    assign_offsets(batch, 0, base_offset=12, leader_epoch=3)

    again = recompress(batch, after)

    old, new = kernel.check_batch(batch), kernel.check_batch(again)
    assert new.compression is after
    assert list(kernel.iterate_records(again)) == list(kernel.iterate_records(batch))
    changed = {"size_bytes": 0, "crc": 0, "attributes": 0}
    assert new._replace(**changed) == old._replace(**changed)
    assert new.is_transactional


def test_the_batch_at_a_position_is_recompressed() -> None:
    first, second = kernel.build_batch(RECORDS), kernel.build_batch(RECORDS[:1])

    again = recompress(first + second, Compression.LZ4, position=len(first))

    assert kernel.check_batch(again).record_count == 1


def test_recompression_detects_invalid_compressed_records() -> None:
    batch = kernel.build_batch(RECORDS, compression=Compression.GZIP)
    batch[60] = 9  # records, of which there are three
    batch[26] = 8
    repair(batch)
    assert kernel.check_batch(batch).record_count == 9

    with pytest.raises(InvalidBatch):
        recompress(batch, Compression.NONE)


def test_recompression_of_a_bomb_is_refused() -> None:
    batch = kernel.build_batch([(1, None, bytes(1_000_000), ())], compression=Compression.ZSTD)

    with pytest.raises(TooLarge):
        recompress(batch, Compression.NONE, limit_bytes=1_000_000)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-1, 2**50), BLOBS, BLOBS), min_size=1, max_size=8),
    st.sampled_from(OLD_CODECS),
    st.integers(0, 2**50),
)
def test_records_survive_conversion_both_ways(
    fields: list[tuple[int, bytes | None, bytes | None]], codec: Compression, base_offset: int
) -> None:
    records = [NewRecord(*each) for each in fields]
    batch = kernel.build_batch(records, base_offset=base_offset, compression=codec)

    again = up_convert(down_convert(batch, magic=1))

    assign_offsets(again, 0, base_offset=base_offset, leader_epoch=-1)
    assert list(kernel.iterate_records(again)) == list(kernel.iterate_records(batch))
