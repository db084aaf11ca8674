"""Kafka's four codecs, in the framings that its clients read and write.

gzip and zstd are plain streams. Snappy has the framing of the Java library that Kafka started with ("xerial"), and is
read without it too. LZ4 is a frame of independent blocks: the Java client refuses linked blocks, so the frame is
written here and not by cramjam.

Decompression never writes more than `limit_bytes`. Memory is allocated before, by the size that the data declares or
can have at most. A declared size is bounded by what the codec can make of the compressed bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

import cramjam

from penstock.records.batch import Buffer, Compression
from penstock.records.errors import CorruptBatch, TooLarge, UnsupportedCompression

MIB = 1024 * 1024
DECOMPRESSED_BYTES_MAX = 128 * MIB  # more than any sane batch has, less than would hurt a node

DEFAULT_LEVELS = {Compression.GZIP: -1, Compression.LZ4: 9, Compression.ZSTD: 3}  # Kafka's default
GZIP_LEVEL_DEFAULT = 6  # zlib's meaning of -1

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEAD = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"  # version 1, readable by version 1
XERIAL_BLOCK_BYTES = 32 * 1024

LZ4_HEAD = b"\x04\x22\x4d\x18\x60\x40\x82"  # magic; independent blocks of 64 KiB; checksum
LZ4_BLOCK_BYTES = 64 * 1024
LZ4_STORED = 0x8000_0000  # this bit of a block's size marks an uncompressed block
LZ4_HIGH_LEVEL_MIN = 3  # below, frames would be written by the fast compressor
LZ4_HIGH_LEVEL_MAX = 12  # liblz4's; Kafka's setting goes up to 17, with the same result

ZSTD_BLOCK_BYTES_MAX = 128 * 1024

# The most that one compressed byte can become, by the format; snappy's is 64 bytes for a copy of 3.
GZIP_RATIO_MAX = 1032
LZ4_RATIO_MAX = 255
SNAPPY_RATIO_MAX = 22

_INT32 = Struct(">i")
_UINT32_LE = Struct("<I")


def compress(codec: Compression, data: Buffer, level: int | None = None) -> Buffer:
    """`data` compressed for clients; no level means Kafka's default."""
    if codec is Compression.NONE:
        return data
    if codec is Compression.SNAPPY:
        return _compress_snappy(data)
    if level is None:
        level = DEFAULT_LEVELS[codec]
    if codec is Compression.GZIP:
        return memoryview(cramjam.gzip.compress(data, level=GZIP_LEVEL_DEFAULT if level < 0 else level))
    if codec is Compression.LZ4:
        return _compress_lz4(data, level)
    return memoryview(cramjam.zstd.compress(data, level=level))


def decompress(codec: Compression, data: Buffer, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> Buffer:
    """`data` decompressed. Raises `CorruptBatch`, or `TooLarge` if it would exceed the limit."""
    if codec is Compression.NONE:
        return data
    try:
        if codec is Compression.SNAPPY:
            return _decompress_snappy(memoryview(data), limit_bytes)
        if codec is Compression.GZIP:
            return _decompress_into(cramjam.gzip.decompress_into, data, _gzip_bound(data), limit_bytes)
        if codec is Compression.LZ4:
            return _decompress_into(cramjam.lz4.decompress_into, data, _lz4_bound(data), limit_bytes)
        if codec is Compression.ZSTD:
            return _decompress_into(cramjam.zstd.decompress_into, data, _zstd_bound(data), limit_bytes)
    except cramjam.DecompressionError as exc:
        raise CorruptBatch(f"{codec.name.lower()} cannot be decompressed: {exc}") from exc
    raise UnsupportedCompression(f"there is no codec {codec}")


def _decompress_into(
    into: Callable[[Buffer, bytearray], int], data: Buffer, bound: int, limit_bytes: int
) -> memoryview:
    """Decompress into a buffer of `bound` bytes, or of the limit; if the bound was wrong, try once more with the
    limit."""
    buffer = bytearray(min(bound, limit_bytes))
    try:
        size = into(data, buffer)
    except cramjam.DecompressionError as exc:
        if "write whole buffer" not in str(exc):
            raise
        if len(buffer) == limit_bytes:
            raise TooLarge(f"decompressed records exceed {limit_bytes} bytes") from exc
        return _decompress_into(into, data, limit_bytes, limit_bytes)
    return memoryview(buffer)[:size]


def _gzip_bound(data: Buffer) -> int:
    """The size declared at the end of the stream, which is right for the single member that every client writes."""
    if len(data) < 4:
        return 0
    (declared,) = _UINT32_LE.unpack_from(data, len(data) - 4)
    return int(min(declared, len(data) * GZIP_RATIO_MAX))


def _lz4_bound(data: Buffer) -> int:
    """The number of blocks times the largest block size of the frame."""
    if len(data) < 7:
        return 0
    flags = data[4]
    block_bytes_max = 1 << (8 + 2 * ((data[5] >> 4) & 7))
    at = 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    checksum_bytes = 4 if flags & 0x10 else 0
    bound = 0
    while at + 4 <= len(data):
        size = _UINT32_LE.unpack_from(data, at)[0] & ~LZ4_STORED
        if size == 0:
            break
        bound += block_bytes_max
        at += 4 + size + checksum_bytes
    return min(bound, len(data) * LZ4_RATIO_MAX)


def _zstd_bound(data: Buffer) -> int:
    """The declared content size, or the number of blocks times the largest block size."""
    if len(data) < 6:
        return 0
    descriptor = data[4]
    is_single_segment = descriptor & 0x20 != 0
    size_code = descriptor >> 6
    dictionary_bytes = (0, 1, 2, 4)[descriptor & 3]
    size_bytes = (1 if is_single_segment else 0, 2, 4, 8)[size_code]
    at = 5 + (0 if is_single_segment else 1) + dictionary_bytes
    blocks_bound = _zstd_blocks_bound(data, at + size_bytes)
    if size_bytes == 0 or at + size_bytes > len(data):
        return blocks_bound
    declared = int.from_bytes(data[at : at + size_bytes], "little") + (256 if size_bytes == 2 else 0)
    return min(declared, blocks_bound)


def _zstd_blocks_bound(data: Buffer, at: int) -> int:
    bound = 0
    while at + 3 <= len(data):
        head = int.from_bytes(data[at : at + 3], "little")
        kind, size = (head >> 1) & 3, head >> 3
        if kind == 2:  # compressed: its size does not tell the uncompressed size
            bound += ZSTD_BLOCK_BYTES_MAX
        else:
            bound += size
        at += 3 + (1 if kind == 1 else size)  # one byte, repeated
        if head & 1:
            break
    return bound


def _compress_snappy(data: Buffer) -> bytes:
    view = memoryview(data)
    parts: list[Buffer] = [XERIAL_HEAD]
    for start in range(0, len(view), XERIAL_BLOCK_BYTES):
        block = memoryview(cramjam.snappy.compress_raw(view[start : start + XERIAL_BLOCK_BYTES]))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(view: memoryview, limit_bytes: int) -> memoryview:
    if bytes(view[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        return memoryview(_decompress_snappy_block(view, limit_bytes))
    parts: list[Buffer] = []
    at = 0
    while at < len(view):
        if bytes(view[at : at + len(XERIAL_MAGIC)]) == XERIAL_MAGIC:
            at += len(XERIAL_HEAD)  # also in the middle, if streams were joined
            continue
        if at + 4 > len(view):
            raise CorruptBatch("a snappy block is cut off")
        (size,) = _INT32.unpack_from(view, at)
        at += 4
        if size < 0 or size > len(view) - at:
            raise CorruptBatch("a snappy block exceeds the data")
        part = _decompress_snappy_block(view[at : at + size], limit_bytes)
        limit_bytes -= len(part)
        parts.append(part)
        at += size
    return memoryview(parts[0] if len(parts) == 1 else b"".join(parts))


def _decompress_snappy_block(block: memoryview, limit_bytes: int) -> Buffer:
    declared = cramjam.snappy.decompress_raw_len(block)
    if declared > limit_bytes:
        raise TooLarge("decompressed records exceed the limit")
    if declared > len(block) * SNAPPY_RATIO_MAX:
        raise CorruptBatch("a snappy block declares more than it can hold")
    buffer = bytearray(declared)
    size = cramjam.snappy.decompress_raw_into(block, buffer)
    if size != declared:
        raise CorruptBatch("a snappy block is shorter than it declares")
    return buffer


def _compress_lz4(data: Buffer, level: int) -> bytes:
    view = memoryview(data)
    parts: list[Buffer] = [LZ4_HEAD]
    for start in range(0, len(view), LZ4_BLOCK_BYTES):
        raw = view[start : start + LZ4_BLOCK_BYTES]
        # As the Java client does: its default level means the fast compressor, every other the high one.
        if level == DEFAULT_LEVELS[Compression.LZ4]:
            block = memoryview(cramjam.lz4.compress_block(raw, store_size=False))
        else:
            block = _compress_lz4_block_high(raw, level)
        if len(block) < len(raw):
            parts += (_UINT32_LE.pack(len(block)), block)
        else:
            parts += (_UINT32_LE.pack(len(raw) | LZ4_STORED), raw)
    parts.append(_UINT32_LE.pack(0))
    return b"".join(parts)


def _compress_lz4_block_high(raw: memoryview, level: int) -> memoryview:
    """One block, cut out of a frame: cramjam has levels for frames and none for blocks."""
    high_level = min(max(level, LZ4_HIGH_LEVEL_MIN), LZ4_HIGH_LEVEL_MAX)
    frame = memoryview(cramjam.lz4.compress(raw, level=high_level))
    at = len(LZ4_HEAD)
    (size,) = _UINT32_LE.unpack_from(frame, at)
    if size & LZ4_STORED:
        return raw
    end = at + 4 + size + (4 if frame[4] & 0x10 else 0)
    assert frame[4] & 0x09 == 0, (
        "the frame has neither content size nor dictionary, which would shift its block"
    )
    assert _UINT32_LE.unpack_from(frame, end) == (0,), "data that fits one block was written as one block"
    return frame[at + 4 : at + 4 + size]
