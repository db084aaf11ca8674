"""Record batches (format v2) in plain Python: the reference for the compiled kernel.

Every function has the name, arguments, results and exceptions of the compiled one. It is written to be read, and it
cannot read out of bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from oracle.records.varint import append_varint, read_varint, read_varlong, wrap_int64
from penstock.records.batch import (
    COMPRESSION_MASK,
    CONTROL_MASK,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_BYTES,
    MAGIC,
    MAGIC_AT,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_MASK,
    BatchHeader,
    Buffer,
    Compression,
    Headers,
    NewRecord,
    Record,
    RecordRows,
    RecordScan,
    TimestampType,
)
from penstock.records.compression import DECOMPRESSED_BYTES_MAX, compress, decompress
from penstock.records.crc import crc32c
from penstock.records.errors import CorruptBatch, InvalidBatch, UnsupportedCompression, UnsupportedMagic

BATCH_BYTES_MAX = 2**31 - 1  # the length field is a signed 32-bit number


def read_header(view: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`. Checks only that it is inside the buffer."""
    if position < 0 or len(view) - position < HEADER_BYTES:
        raise CorruptBatch(f"a batch at {position} does not fit a buffer of {len(view)} bytes")
    if view[position + MAGIC_AT] != MAGIC:
        raise UnsupportedMagic(
            f"format {view[position + MAGIC_AT]} at {position} is not batch format {MAGIC}"
        )
    fields = HEADER.unpack_from(view, position)
    return BatchHeader(fields[0], fields[1] + LENGTH_BYTES, *fields[2:])


def read_headers(view: Buffer) -> list[BatchHeader]:
    """Headers of all whole batches in the buffer, unchecked; an incomplete batch at the end is ignored."""
    headers = []
    position = 0
    while len(view) - position >= HEADER_BYTES:
        header = read_header(view, position)
        if header.size_bytes < HEADER_BYTES:
            raise CorruptBatch(f"the batch at {position} claims {header.size_bytes} bytes")
        if header.size_bytes > len(view) - position:
            break
        headers.append(header)
        position += header.size_bytes
    return headers


def check_batch(view: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, after checking that the whole batch is there, undamaged and consistent.

    Uncompressed records are checked one by one; compressed ones are not read.
    """
    header = _read_whole_header(view, position)
    end = position + header.size_bytes
    crc = crc32c(memoryview(view)[position + CRC_START : end])
    if crc != header.crc:
        raise CorruptBatch(f"the batch at {position} has checksum {crc:#x}, its header says {header.crc:#x}")
    # Compaction leaves fewer records than offsets, or none; `validate` decides what producers may send.
    if header.record_count < 0 or header.last_offset_delta < max(header.record_count - 1, 0):
        raise InvalidBatch(
            f"the batch at {position} has {header.record_count} records in"
            f" {header.last_offset_delta + 1} offsets"
        )
    if header.attributes & COMPRESSION_MASK == Compression.NONE:
        for _ in parse_records(
            memoryview(view)[position + HEADER_BYTES : end], header.record_count, position
        ):
            pass
    return header


def inspect_batch(view: Buffer, position: int = 0) -> tuple[BatchHeader, RecordScan | None]:
    """`check_batch` and `scan_records` in one; the scan is None if records are compressed."""
    header = check_batch(view, position)
    if header.attributes & COMPRESSION_MASK:
        return header, None
    return header, scan_records(view, position)


def check_batches(view: Buffer) -> list[BatchHeader]:
    """`check_batch` for every batch of a buffer that must hold only whole batches."""
    headers = []
    position = 0
    while position < len(view):
        header = check_batch(view, position)
        headers.append(header)
        position += header.size_bytes
    return headers


def scan_records(view: Buffer, position: int = 0, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> RecordScan:
    """Scan every record of the batch, decompressed if needed; the CRC is not checked."""
    header = _read_whole_header(view, position)
    records = list(iterate_records(view, position, limit_bytes=limit_bytes))
    timestamps = [record.timestamp for record in records] or [header.max_timestamp]
    return RecordScan(
        min_timestamp=min(timestamps),
        max_timestamp=max(timestamps),
        keyless_count=sum(record.key is None for record in records),
        has_consecutive_offsets=all(
            record.offset == wrap_int64(header.base_offset + index) for index, record in enumerate(records)
        ),
        payload_bytes=len(read_payload(view, position, limit_bytes=limit_bytes)),
    )


def iterate_records(
    view: Buffer, position: int = 0, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[Record]:
    """The records of the batch at `position`, decompressed if needed; the CRC is not checked."""
    header = _read_whole_header(view, position)
    payload = read_payload(view, position, limit_bytes=limit_bytes)
    return _iterate(payload, header, position)


def read_payload(view: Buffer, position: int = 0, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> memoryview:
    """The bytes of the batch's records, decompressed if needed."""
    header = _read_whole_header(view, position)
    payload = memoryview(view)[position + HEADER_BYTES : position + header.size_bytes]
    codec = header.compression
    if codec is Compression.NONE:
        return payload
    return memoryview(decompress(codec, payload, limit_bytes=limit_bytes))


def build_batch(
    records: Iterable[NewRecord | Record | tuple[int, bytes | None, bytes | None, Headers] | RecordRows],
    *,
    base_offset: int | None = None,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """A batch of `records`, at least one.

    `(timestamp, key, value, headers)` gets the next offset; a `Record` keeps its own; `RecordRows` are many. The base
    offset is the first record's, or 0. The result is writable, so that a log can assign offsets.
    """
    out = bytearray(HEADER_BYTES)
    count = 0
    base_timestamp = max_timestamp = 0
    offset_delta = -1
    for record in _single_records(records):
        if len(record) == 5:
            offset, timestamp, key, value, headers = record
            if base_offset is None:
                base_offset = offset
            offset_delta = _next_offset_delta(offset_delta, offset - base_offset)
        else:
            timestamp, key, value, headers = record
            offset_delta = _next_offset_delta(offset_delta, offset_delta + 1)
        if count == 0:
            base_timestamp = max_timestamp = timestamp
        max_timestamp = max(max_timestamp, timestamp)
        append_record(out, wrap_int64(timestamp - base_timestamp), offset_delta, key, value, headers)
        count += 1
    if count == 0:
        raise ValueError("a batch has one record at least")
    attributes = (
        compression
        | timestamp_type << 3
        | (TRANSACTIONAL_MASK if is_transactional else 0)
        | (CONTROL_MASK if is_control else 0)
    )
    return finish_batch(
        out,
        BatchHeader(
            base_offset=base_offset or 0,
            size_bytes=0,
            leader_epoch=leader_epoch,
            magic=MAGIC,
            crc=0,
            attributes=attributes,
            last_offset_delta=offset_delta,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=count,
        ),
        level,
    )


def _single_records(
    records: Iterable[NewRecord | Record | tuple[int, bytes | None, bytes | None, Headers] | RecordRows],
) -> Iterator[NewRecord | Record | tuple[int, bytes | None, bytes | None, Headers]]:
    for record in records:
        if isinstance(record, RecordRows):
            yield from record.records()
        else:
            yield record


def finish_batch(out: bytearray, header: BatchHeader, level: int | None) -> bytearray:
    """Compress what follows the space for the header in `out`, and write the header with its length and CRC."""
    if header.attributes & COMPRESSION_MASK:
        with memoryview(out) as view:
            payload = compress(header.compression, view[HEADER_BYTES:], level)
        out = bytearray(HEADER_BYTES)
        out += payload
    stamp_header(out, header)
    return out


def stamp_header(out: bytearray, header: BatchHeader) -> None:
    """Write the header, with length and CRC, before the encoded records in `out`."""
    if len(out) > BATCH_BYTES_MAX:
        raise ValueError(f"a batch of {len(out)} bytes is too large")
    fields = header._replace(size_bytes=len(out) - LENGTH_BYTES)
    HEADER.pack_into(out, 0, *fields)
    with memoryview(out) as view:
        crc = crc32c(view[CRC_START:])
    HEADER.pack_into(out, 0, *fields._replace(crc=crc))


def append_record(
    out: bytearray,
    timestamp_delta: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
) -> None:
    body = bytearray(1)  # attributes: none is defined
    append_varint(body, timestamp_delta)
    append_varint(body, offset_delta)
    _append_bytes(body, key)
    _append_bytes(body, value)
    append_varint(body, len(headers))
    for name, content in headers:
        _append_bytes(body, name.encode())
        _append_bytes(body, content)
    append_varint(out, len(body))
    out += body


def _append_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        append_varint(out, -1)
    else:
        append_varint(out, len(data))
        out += data


def _next_offset_delta(last: int, following: int) -> int:
    if not last < following <= 0x7FFF_FFFF:
        raise ValueError("offsets of a batch must rise, and stay within 2**31 of the first")
    return following


def _read_whole_header(view: Buffer, position: int) -> BatchHeader:
    header = read_header(view, position)
    if header.size_bytes < HEADER_BYTES or header.size_bytes > len(view) - position:
        raise CorruptBatch(
            f"the batch at {position} claims {header.size_bytes} of {len(view) - position} bytes"
        )
    codec = header.attributes & COMPRESSION_MASK
    if codec > Compression.ZSTD:
        raise UnsupportedCompression(f"there is no codec {codec}")
    return header


def _iterate(payload: memoryview, header: BatchHeader, position: int) -> Iterator[Record]:
    is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    for parsed in parse_records(payload, header.record_count, position):
        timestamp = header.max_timestamp if is_append_time else header.base_timestamp + parsed.timestamp_delta
        yield Record(
            wrap_int64(header.base_offset + parsed.offset_delta),
            wrap_int64(timestamp),
            None if parsed.key is None else bytes(parsed.key),
            None if parsed.value is None else bytes(parsed.value),
            tuple(
                (str(name, "utf-8", "replace"), None if content is None else bytes(content))
                for name, content in parsed.headers
            ),
        )


class ParsedRecord(NamedTuple):
    """One encoded record: numbers relative to the batch, contents as views."""

    timestamp_delta: int
    offset_delta: int
    key: memoryview | None
    value: memoryview | None
    headers: list[tuple[memoryview, memoryview | None]]
    raw_headers: memoryview


def parse_records(payload: memoryview, record_count: int, position: int) -> Iterator[ParsedRecord]:
    """Exactly `record_count` records that fill the payload exactly, or `InvalidBatch`."""
    at = 0
    for index in range(record_count):
        try:
            record, at = _parse_record(payload, at)
        except InvalidBatch as exc:
            raise InvalidBatch(f"record {index} of the batch at {position} is malformed") from exc
        yield record
    if at != len(payload):
        raise InvalidBatch(f"the batch at {position} holds more than its {record_count} records")


def _parse_record(payload: memoryview, at: int) -> tuple[ParsedRecord, int]:
    length, at = read_varint(payload, at, len(payload))
    if not 0 < length <= len(payload) - at:
        raise InvalidBatch("its length leaves the batch")
    end = at + length
    timestamp_delta, at = read_varlong(payload, at + 1, end)  # one byte of attributes, none defined
    offset_delta, at = read_varint(payload, at, end)
    key, at = _read_bytes(payload, at, end)
    value, at = _read_bytes(payload, at, end)
    header_count, at = read_varint(payload, at, end)
    if not 0 <= header_count <= end - at:
        raise InvalidBatch("its count of headers cannot be")
    headers = []
    headers_at = at
    for _ in range(header_count):
        name, at = _read_bytes(payload, at, end)
        if name is None:
            raise InvalidBatch("a header has no name")
        content, at = _read_bytes(payload, at, end)
        headers.append((name, content))
    if at != end:
        raise InvalidBatch("it is longer than its fields")
    return ParsedRecord(timestamp_delta, offset_delta, key, value, headers, payload[headers_at:end]), end


def _read_bytes(payload: memoryview, at: int, end: int) -> tuple[memoryview | None, int]:
    size, at = read_varint(payload, at, end)
    if size < 0:
        return None, at
    if size > end - at:
        raise InvalidBatch("a field leaves its record")
    return payload[at : at + size], at + size
