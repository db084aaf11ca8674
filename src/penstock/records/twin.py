"""The kernel in plain Python: the reference for the compiled one, and the fallback without a compiler.

Every function here has the same name, arguments, results and exceptions in `_kernel.pyx`, and tests hold them equal.
This one is written to be read; where it is slow, the compiled one is not.
"""

from __future__ import annotations

from penstock.records.batch import (
    COMPRESSION_MASK,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_BYTES,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    Buffer,
    Compression,
)
from penstock.records.crc import crc32c
from penstock.records.errors import CorruptBatch, InvalidBatch, UnsupportedCompression, UnsupportedMagic
from penstock.records.varint import read_varint


def read_header(view: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, believed: only that it lies inside the buffer is checked, not the records."""
    if position < 0 or len(view) - position < HEADER_BYTES:
        raise CorruptBatch(f"a batch at {position} does not fit a buffer of {len(view)} bytes")
    if view[position + MAGIC_AT] != MAGIC:
        raise UnsupportedMagic(
            f"format {view[position + MAGIC_AT]} at {position} is not batch format {MAGIC}"
        )
    fields = HEADER.unpack_from(view, position)
    return BatchHeader(fields[0], fields[1] + LENGTH_BYTES, *fields[2:])


def read_headers(view: Buffer) -> list[BatchHeader]:
    """Headers of all whole batches in the buffer, believed; an incomplete one at the end is left out."""
    headers = []
    position = 0
    while len(view) - position >= HEADER_BYTES:
        header = read_header(view, position)
        if header.size_bytes < HEADER_BYTES:
            raise CorruptBatch(f"a batch at {position} claims {header.size_bytes} bytes")
        if header.size_bytes > len(view) - position:
            break
        headers.append(header)
        position += header.size_bytes
    return headers


def check_batch(view: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, after making sure that the whole batch is there, undamaged and consistent."""
    header = read_header(view, position)
    if header.size_bytes < HEADER_BYTES or header.size_bytes > len(view) - position:
        raise CorruptBatch(
            f"a batch at {position} claims {header.size_bytes} of {len(view) - position} bytes"
        )
    end = position + header.size_bytes
    crc = crc32c(memoryview(view)[position + CRC_START : end])
    if crc != header.crc:
        raise CorruptBatch(
            f"the batch at {position} has checksum {crc:#010x}, its header says {header.crc:#010x}"
        )
    # Compaction leaves fewer records than offsets, or none; what a producer may send is for `validate` to say.
    if header.record_count < 0 or header.last_offset_delta < max(header.record_count - 1, 0):
        raise InvalidBatch(
            f"the batch at {position} has {header.record_count} records in {header.last_offset_delta + 1} offsets"
        )
    codec = header.attributes & COMPRESSION_MASK
    if codec > Compression.ZSTD:
        raise UnsupportedCompression(f"there is no codec {codec}")
    if codec == Compression.NONE:
        _check_record_lengths(view, position, header)
    return header


def check_batches(view: Buffer) -> list[BatchHeader]:
    """`check_batch` for every batch of a buffer that must hold whole batches and nothing else."""
    headers = []
    position = 0
    while position < len(view):
        header = check_batch(view, position)
        headers.append(header)
        position += header.size_bytes
    return headers


def _check_record_lengths(view: Buffer, position: int, header: BatchHeader) -> None:
    at = position + HEADER_BYTES
    end = position + header.size_bytes
    for _ in range(header.record_count):
        length, at = read_varint(view, at, end)
        if length < 0 or length > end - at:
            raise InvalidBatch(f"a record of the batch at {position} leaves it")
        at += length
    if at != end:
        raise InvalidBatch(f"the batch at {position} is longer than its {header.record_count} records")
