"""Message sets of formats 0 and 1: wrappers, offsets, timestamps, and the wrong checksum in LZ4 headers."""

from __future__ import annotations

from struct import pack_into
from types import SimpleNamespace
from zlib import crc32

import pytest

from penstock.records import kernel
from penstock.records.batch import Compression, Record, TimestampType
from penstock.records.compression import compress, decompress
from penstock.records.errors import (
    CorruptBatch,
    InvalidBatch,
    TooLarge,
    UnsupportedCompression,
    UnsupportedMagic,
)
from penstock.records.message_set import (
    break_lz4_header,
    fix_lz4_header,
    read_message_set,
    write_message_set,
)
from strategies.records import implementations

RECORDS = [
    Record(70, 1000, b"k0", b"v0"),
    Record(71, 1004, None, b"v1"),
    Record(75, 1002, b"k2", None),
]
OLD_CODECS = [codec for codec in Compression if codec is not Compression.ZSTD]


@pytest.fixture(params=implementations())
def kernels(request: pytest.FixtureRequest) -> SimpleNamespace:
    implementation: SimpleNamespace = request.param
    return implementation


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_a_set_returns_its_records(magic: int, codec: Compression) -> None:
    message_set = read_message_set(write_message_set(RECORDS, magic=magic, codec=codec))

    assert message_set.magic == magic
    assert message_set.codec is codec
    times = [1000, 1004, 1002] if magic else [-1, -1, -1]
    expected = [record._replace(timestamp=time) for record, time in zip(RECORDS, times, strict=True)]
    assert message_set.records == expected


def test_offsets_in_a_wrapper_of_format_1_count_from_its_first() -> None:
    data = write_message_set(RECORDS, magic=1, codec=Compression.GZIP)

    (wrapper,) = kernel.parse_messages(data)

    assert wrapper.offset == 75
    assert wrapper.timestamp == 1004
    assert wrapper.key is None


def test_offsets_in_a_wrapper_of_format_0_are_absolute() -> None:
    inner = kernel.write_messages(RECORDS, magic=0)
    value = bytes(compress(Compression.GZIP, inner))
    wrapper = kernel.write_messages([Record(75, -1, None, value)], magic=0, codec=Compression.GZIP)

    assert write_message_set(RECORDS, magic=0, codec=Compression.GZIP) == wrapper


def test_a_wrapper_of_offset_0_keeps_the_offsets_inside() -> None:
    """As some versions of librdkafka produced them."""
    inner = kernel.write_messages(RECORDS, magic=1, base_offset=70)
    wrapper = kernel.write_messages(
        [Record(0, 1, None, bytes(compress(Compression.GZIP, inner)))], magic=1, codec=Compression.GZIP
    )

    assert [record.offset for record in read_message_set(wrapper).records] == [0, 1, 5]


def test_append_time_of_a_wrapper_applies_to_all_messages() -> None:
    records = [record._replace(timestamp=9_000) for record in RECORDS]
    data = write_message_set(
        records, magic=1, codec=Compression.SNAPPY, timestamp_type=TimestampType.LOG_APPEND_TIME
    )

    message_set = read_message_set(data)

    assert message_set.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp for record in message_set.records] == [9_000] * 3


def wrapped(
    inner: bytes, *, magic: int = 1, codec: Compression = Compression.GZIP, offset: int = 75
) -> bytes:
    value = bytes(compress(codec, inner))
    return bytes(kernel.write_messages([Record(offset, 1, None, value)], magic=magic, codec=codec))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        wrapped(b""),
        wrapped(bytes(kernel.write_messages(RECORDS, magic=0))),
        wrapped(wrapped(bytes(kernel.write_messages(RECORDS, magic=1)))),
        wrapped(bytes(kernel.write_messages(RECORDS, magic=1, base_offset=70)), offset=3),
        wrapped(bytes(kernel.write_messages(RECORDS, magic=1, base_offset=70)), codec=Compression.ZSTD),
        bytes(kernel.write_messages([Record(0, 1, None, None)], magic=1, codec=1)),
        bytes(kernel.write_messages(RECORDS, magic=0) + kernel.write_messages(RECORDS, magic=1)),
    ],
    ids=[
        "empty",
        "empty wrapper",
        "format 0 in format 1",
        "wrapper in wrapper",
        "offsets before 0",
        "zstd",
        "wrapper without value",
        "mixed formats",
    ],
)
def test_sets_that_break_the_rules_are_invalid(data: bytes) -> None:
    with pytest.raises(InvalidBatch):
        read_message_set(data)


def test_an_unknown_codec_is_named() -> None:
    with pytest.raises(UnsupportedCompression, match="no codec 5"):
        read_message_set(kernel.write_messages([Record(0, 1, None, b"v")], magic=1, codec=5))


def test_an_unknown_format_is_named(kernels: SimpleNamespace) -> None:
    data = kernels.write_messages(RECORDS, magic=1)
    data[16] = 3
    fix_checksum(data)

    with pytest.raises(UnsupportedMagic):
        kernels.parse_messages(data)


def test_damage_inside_a_wrapper_is_found() -> None:
    inner = kernel.write_messages(RECORDS, magic=1, base_offset=70)
    inner[-1] ^= 1

    with pytest.raises(CorruptBatch):
        read_message_set(wrapped(bytes(inner)))


def test_every_bit_after_the_offset_is_protected(kernels: SimpleNamespace) -> None:
    data = kernels.write_messages(RECORDS[:1], magic=1)

    for index in range(8, len(data)):
        damaged = bytearray(data)
        damaged[index] ^= 0x20
        with pytest.raises(CorruptBatch):
            kernels.parse_messages(damaged)


@pytest.mark.parametrize("cut", [1, 5, 20, 35])
def test_a_truncated_message_is_corrupt(kernels: SimpleNamespace, cut: int) -> None:
    data = kernels.write_messages(RECORDS, magic=1)

    with pytest.raises(CorruptBatch):
        kernels.parse_messages(data[:-cut])


def test_a_field_that_exceeds_its_message_is_invalid(kernels: SimpleNamespace) -> None:
    data = kernels.write_messages(RECORDS[:1], magic=0)
    pack_into(">i", data, 18, 1000)
    fix_checksum(data)

    with pytest.raises(InvalidBatch, match="malformed"):
        kernels.parse_messages(data)


def fix_checksum(data: bytearray) -> None:
    size = int.from_bytes(data[8:12], "big")
    pack_into(">I", data, 12, crc32(data[16 : 12 + size]))


def test_a_decompression_bomb_in_a_wrapper_is_refused() -> None:
    inner = kernel.write_messages([Record(0, 1, None, bytes(1_000_000))], magic=1)

    with pytest.raises(TooLarge):
        read_message_set(wrapped(bytes(inner), offset=0), limit_bytes=999_999)


def test_many_wrappers_share_one_limit() -> None:
    inner = kernel.write_messages([Record(0, 1, None, bytes(1_000_000))], magic=1)

    with pytest.raises(TooLarge):
        read_message_set(wrapped(bytes(inner), offset=0) * 5, limit_bytes=3_000_000)


def test_zstd_is_not_written_for_clients_that_do_not_know_it() -> None:
    with pytest.raises(UnsupportedCompression):
        write_message_set(RECORDS, magic=1, codec=Compression.ZSTD)


def test_lz4_of_format_0_has_the_checksum_that_its_clients_expect() -> None:
    frame = bytes(compress(Compression.LZ4, b"data" * 100))

    spoiled = break_lz4_header(frame)

    assert frame[6] == 0x82
    assert spoiled[6] == 0x1A  # as written by the client of 0.8 for these flags
    assert spoiled[:6] + spoiled[7:] == frame[:6] + frame[7:]
    assert fix_lz4_header(spoiled) == frame


def test_a_frame_with_a_content_size_is_corrected_too() -> None:
    data = b"data" * 100
    frame = bytes(compress(Compression.LZ4, data))
    sized = (
        frame[:4] + bytes((frame[4] | 0x08, frame[5])) + len(data).to_bytes(8, "little") + b"?" + frame[7:]
    )

    with pytest.raises(CorruptBatch):
        decompress(Compression.LZ4, sized)
    assert bytes(decompress(Compression.LZ4, fix_lz4_header(sized))) == data


@pytest.mark.parametrize("size", [0, 6])
def test_a_frame_that_is_too_short_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptBatch):
        fix_lz4_header(bytes(size))
