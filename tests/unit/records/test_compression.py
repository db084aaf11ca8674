"""The four codecs: framings, decompression bombs and damage."""

from __future__ import annotations

import gzip
import random
import subprocess
import sys
import zlib
from contextlib import suppress

import cramjam
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.records.batch import Compression
from penstock.records.compression import (
    LZ4_HEAD,
    XERIAL_BLOCK_BYTES,
    XERIAL_HEAD,
    compress,
    decompress,
)
from penstock.records.errors import CorruptBatch, RecordsError, TooLarge

CODECS = [codec for codec in Compression if codec is not Compression.NONE]
LEVELS = {
    Compression.GZIP: [-1, 1, 9],
    Compression.SNAPPY: [None],
    Compression.LZ4: [1, 9, 12, 17],
    Compression.ZSTD: [-5, 1, 22],
}
TEXT = b"".join(b'{"id": %d, "name": "user-%d"}' % (i, i * 7919 % 1000) for i in range(9000))
SAMPLES = {
    "nothing": b"",
    "a byte": b"x",
    "text": TEXT,
    "noise": random.Random(1).randbytes(100_000),
    "zeros": bytes(1_000_000),
    "one block": TEXT[: 64 * 1024],
}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", SAMPLES)
def test_compressed_data_is_decompressed(codec: Compression, name: str) -> None:
    data = SAMPLES[name]

    for level in LEVELS[codec]:
        assert bytes(decompress(codec, compress(codec, data, level))) == data


def test_without_a_codec_data_stays_the_same() -> None:
    assert compress(Compression.NONE, b"data") == b"data"
    assert decompress(Compression.NONE, b"data", limit_bytes=0) == b"data"


@pytest.mark.parametrize(("codec", "low", "high"), [(1, 1, 9), (3, 9, 8), (3, 3, 8), (4, 1, 19)])
def test_a_higher_level_is_smaller(codec: int, low: int, high: int) -> None:
    """For lz4, 9 is the fast compressor, which is Kafka's default."""
    assert len(compress(Compression(codec), TEXT, high)) < len(compress(Compression(codec), TEXT, low))


# Other implementations as oracle -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLES)
def test_gzip_is_compatible_with_the_standard_library(name: str) -> None:
    data = SAMPLES[name]

    assert gzip.decompress(compress(Compression.GZIP, data)) == data
    assert bytes(decompress(Compression.GZIP, gzip.compress(data))) == data


@pytest.mark.parametrize("name", SAMPLES)
def test_zstd_and_lz4_are_compatible_with_arrow(name: str) -> None:
    data = SAMPLES[name]

    for codec, other in ((Compression.ZSTD, "zstd"), (Compression.LZ4, "lz4")):
        theirs = pyarrow.compress(data, codec=other, asbytes=True)
        assert bytes(decompress(codec, theirs)) == data
        assert pyarrow.decompress(compress(codec, data), len(data), codec=other, asbytes=True) == data


@pytest.mark.parametrize("name", SAMPLES)
def test_snappy_is_read_without_its_framing_too(name: str) -> None:
    data = SAMPLES[name]
    raw = pyarrow.compress(data, codec="snappy", asbytes=True)

    assert bytes(decompress(Compression.SNAPPY, raw)) == data


# Framings --------------------------------------------------------------------------------------------------------


def test_snappy_blocks_are_framed_as_the_java_library_does() -> None:
    framed = bytes(compress(Compression.SNAPPY, TEXT))

    assert framed.startswith(XERIAL_HEAD)
    at = len(XERIAL_HEAD)
    blocks = []
    while at < len(framed):
        size = int.from_bytes(framed[at : at + 4], "big")
        blocks.append(
            bytes(
                decompress(Compression.SNAPPY, framed[at + 4 : at + 4 + size], limit_bytes=XERIAL_BLOCK_BYTES)
            )
        )
        at += 4 + size
    assert b"".join(blocks) == TEXT


def test_joined_snappy_streams_are_one() -> None:
    joined = bytes(compress(Compression.SNAPPY, b"one ")) + bytes(compress(Compression.SNAPPY, b"two"))

    assert bytes(decompress(Compression.SNAPPY, joined)) == b"one two"


def test_lz4_blocks_are_independent_as_the_java_client_requires() -> None:
    frame = bytes(compress(Compression.LZ4, TEXT))

    assert frame.startswith(LZ4_HEAD)
    assert frame[4] & 0x20, "blocks are independent"
    first_size = int.from_bytes(frame[7:11], "little")
    alone = frame[:7] + frame[11 + first_size :]
    assert bytes(decompress(Compression.LZ4, alone)) == TEXT[64 * 1024 :]


def test_lz4_blocks_that_depend_on_each_other_are_read() -> None:
    """As aiokafka writes them, with a checksum for each block."""
    linked = bytes(cramjam.lz4.compress(TEXT))
    assert not linked[4] & 0x20

    assert bytes(decompress(Compression.LZ4, linked)) == TEXT
    assert bytes(decompress(Compression.LZ4, linked, limit_bytes=len(TEXT))) == TEXT


def test_streams_of_several_frames_are_read_whole() -> None:
    for codec in (Compression.GZIP, Compression.LZ4, Compression.ZSTD):
        both = bytes(compress(codec, TEXT)) + bytes(compress(codec, b"and more"))
        assert bytes(decompress(codec, both)) == TEXT + b"and more"


# Bombs and damage ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", ["text", "noise", "zeros"])
def test_the_limit_is_exact(codec: Compression, name: str) -> None:
    data = SAMPLES[name]
    compressed = compress(codec, data)

    assert bytes(decompress(codec, compressed, limit_bytes=len(data))) == data
    with pytest.raises(TooLarge):
        decompress(codec, compressed, limit_bytes=len(data) - 1)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 1, 5, 17, 100])
def test_truncated_data_is_corrupt(codec: Compression, size: int) -> None:
    with pytest.raises(CorruptBatch):
        decompress(codec, bytes(compress(codec, TEXT))[:size])


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=100, deadline=None)
@given(noise=st.binary(max_size=100), at=st.floats(0, 1), flip=st.integers(0, 255))
def test_noise_and_damage_are_refused_or_stay_within_the_limit(
    codec: Compression, noise: bytes, at: float, flip: int
) -> None:
    damaged = bytearray(compress(codec, TEXT[:5000]))
    damaged[int(at * (len(damaged) - 1))] = flip

    for data in (noise, bytes(damaged), bytes(damaged)[: int(at * len(damaged))]):
        with suppress(RecordsError):
            assert len(decompress(codec, data, limit_bytes=6000)) <= 6000


def test_a_snappy_block_cannot_declare_more_than_its_bytes_can_hold() -> None:
    claims_2_gib = b"\xff\xff\xff\xff\x07" + b"\x00a"

    with pytest.raises(CorruptBatch):
        decompress(Compression.SNAPPY, claims_2_gib, limit_bytes=2**31)


def gzip_bomb(mebibytes: int) -> bytes:
    """One deflated mebibyte of zeros, over and over; the checksum is never reached."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = deflate.compress(bytes(2**20)) + deflate.flush(zlib.Z_FULL_FLUSH)
    return b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff" + block * mebibytes + deflate.flush() + bytes(8)


def lz4_bomb(mebibytes: int) -> bytes:
    frame = bytes(compress(Compression.LZ4, bytes(64 * 1024)))
    return frame[:7] + frame[7:-4] * (16 * mebibytes) + bytes(4)


def snappy_bomb(mebibytes: int) -> bytes:
    framed = bytes(compress(Compression.SNAPPY, bytes(32 * 1024)))
    return XERIAL_HEAD + framed[len(XERIAL_HEAD) :] * (32 * mebibytes)


def zstd_bomb(mebibytes: int) -> bytes:
    """Blocks of four bytes that decompress to 128 KiB each."""
    repeated = (128 * 1024 << 3 | 1 << 1).to_bytes(3, "little") + b"\x00"
    last = (0 << 3 | 0 << 1 | 1).to_bytes(3, "little")
    return b"\x28\xb5\x2f\xfd\x00\x58" + repeated * (8 * mebibytes) + last


BOMBS = {
    Compression.GZIP: gzip_bomb,
    Compression.SNAPPY: snappy_bomb,
    Compression.LZ4: lz4_bomb,
    Compression.ZSTD: zstd_bomb,
}


@pytest.mark.parametrize("codec", CODECS)
def test_a_decompression_bomb_is_what_it_seems(codec: Compression) -> None:
    """Without this, the next test could pass because the bombs are merely malformed."""
    bomb = bytearray(BOMBS[codec](2))
    if codec is Compression.GZIP:
        bomb[-8:] = zlib.crc32(bytes(2**21)).to_bytes(4, "little") + (2**21).to_bytes(4, "little")

    assert bytes(decompress(codec, bytes(bomb))) == bytes(2**21)


CONFINED = """
import resource, sys
from penstock.records.batch import Compression
from penstock.records.compression import decompress
from penstock.records.errors import TooLarge

bomb = sys.stdin.buffer.read()
room = 300 * 2**20  # far less than any of the bombs unpacks to
resource.setrlimit(resource.RLIMIT_AS, (room, room))
try:
    decompress(Compression(int(sys.argv[1])), bomb, limit_bytes=2**20)
except TooLarge:
    print("refused")
"""


@pytest.mark.parametrize("codec", CODECS)
def test_a_decompression_bomb_takes_no_more_memory_than_its_limit(codec: Compression) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", CONFINED, str(int(codec))],
        input=BOMBS[codec](2000),
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        check=False,
    )

    assert answer.stdout.decode().strip() == "refused", answer.stderr.decode()
