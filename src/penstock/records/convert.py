"""Converts message sets of old producers to batches, and batches to message sets for old consumers.

The log holds batches only. Headers and control records, which old formats do not have, are dropped on the way down.
Compression stays the same.
"""

from __future__ import annotations

from itertools import islice

from penstock.records import kernel
from penstock.records.batch import (
    COMPRESSION_MASK,
    NO_TIMESTAMP,
    Buffer,
    Compression,
    TimestampType,
    join_batch,
)
from penstock.records.compression import DECOMPRESSED_BYTES_MAX, compress
from penstock.records.errors import InvalidBatch, InvalidTimestamp, UnsupportedCompression
from penstock.records.message_set import read_message_set, write_message_set

RECORDS_AT_ONCE = 10_000  # as objects they take a few megabytes, and a batch may hold millions


def up_convert(
    message_set: Buffer, *, level: int | None = None, limit_bytes: int = DECOMPRESSED_BYTES_MAX
) -> bytearray:
    """A message set of format 0 or 1 as one batch from offset 0; writable, so that a log can assign offsets."""
    messages = read_message_set(message_set, limit_bytes=limit_bytes)
    if messages.is_mixed:
        raise InvalidBatch("a compressed message must be the only one that a producer sends")
    if messages.timestamp_type is TimestampType.LOG_APPEND_TIME:
        raise InvalidTimestamp("only the broker may give records the timestamp type LogAppendTime")
    if any(record.timestamp < NO_TIMESTAMP for record in messages.records):
        raise InvalidTimestamp("a message has a negative timestamp")
    return kernel.build_batch(
        [(record.timestamp, record.key, record.value, ()) for record in messages.records],
        compression=messages.codec,
        level=level,
    )


def down_convert(
    batches: Buffer, *, magic: int, first_offset: int = 0, limit_bytes: int = DECOMPRESSED_BYTES_MAX
) -> bytearray:
    """Batches as message sets of format `magic`; an incomplete batch at the end is ignored.

    Uncompressed records before `first_offset` are skipped, because some consumers take the first message for the one
    they requested. Everything from a zstd batch on, which old clients cannot read, is left out;
    `UnsupportedCompression` if that comes first. Only some records of a batch are decoded at a time.
    """
    out = bytearray()
    position = 0
    for header in kernel.read_headers(batches):
        start, position = position, position + header.size_bytes
        if header.is_control:
            continue
        codec = header.compression
        if codec is Compression.ZSTD:
            if out:
                break
            raise UnsupportedCompression(f"format {magic} cannot carry zstd")
        iterator = iter(kernel.iterate_records(batches, start, limit_bytes=limit_bytes))
        while records := list(islice(iterator, RECORDS_AT_ONCE)):
            if codec is Compression.NONE and header.base_offset < first_offset:
                records = [record for record in records if record.offset >= first_offset]
            out += write_message_set(records, magic=magic, codec=codec, timestamp_type=header.timestamp_type)
    return out


def recompress(
    view: Buffer,
    compression: Compression,
    level: int | None = None,
    *,
    position: int = 0,
    limit_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> bytearray:
    """The batch at `position` with another codec, or none; everything else stays the same.

    Compressed records are checked now, as uncompressed ones were on arrival.
    """
    header = kernel.read_header(view, position)
    payload = kernel.read_payload(view, position, limit_bytes=limit_bytes)
    plain = header._replace(attributes=header.attributes & ~COMPRESSION_MASK)
    out = join_batch(plain, payload)
    kernel.check_batch(out)
    if compression is Compression.NONE:
        return out
    compressed = header._replace(attributes=plain.attributes | compression)
    return join_batch(compressed, compress(compression, payload, level))
