"""Producer state on disk: `<offset>.snapshot` holds it as it was when the log ended there.

Kafka's format: version (int16, 1), CRC-32C (uint32) of all that follows, number of entries (int32), entries.
Only the newest of a producer's batches is kept in it, so a batch that is repeated across a restart is
recognised if it was the last one.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from penstock.records.crc import crc32c
from penstock.storage.errors import CorruptFile
from penstock.storage.producer_state import ProducedBatch, Producer

VERSION = 1

_HEAD = Struct(">hIi")
_ENTRIES_AT = 6  # what the CRC covers
_ENTRY = Struct(">qhiqiqiq")


def encode(producers: Iterable[Producer]) -> bytes:
    entries = b"".join([_encode_producer(producer) for producer in producers])
    data = bytearray(_HEAD.pack(VERSION, 0, len(entries) // _ENTRY.size) + entries)
    _HEAD.pack_into(data, 0, VERSION, crc32c(memoryview(data)[_ENTRIES_AT:]), len(entries) // _ENTRY.size)
    return bytes(data)


def decode(data: bytes) -> list[Producer]:
    """The producers of a snapshot; CorruptFile if it is torn, damaged or of another version."""
    if len(data) < _HEAD.size:
        raise CorruptFile(f"a producer snapshot of {len(data)} bytes is cut short")
    version, crc, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise CorruptFile(f"a producer snapshot has version {version}, not {VERSION}")
    if crc32c(memoryview(data)[_ENTRIES_AT:]) != crc:
        raise CorruptFile("a producer snapshot does not match its CRC")
    if len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptFile(f"a producer snapshot of {len(data)} bytes can not hold {count} producers")
    return [_decode_producer(*fields) for fields in _ENTRY.iter_unpack(memoryview(data)[_HEAD.size :])]


def _encode_producer(producer: Producer) -> bytes:
    last = producer.batches[-1] if producer.batches else ProducedBatch(-1, -1, 0, -1)
    return _ENTRY.pack(
        producer.producer_id,
        producer.epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        producer.last_timestamp_ms,
        producer.coordinator_epoch,
        producer.transaction_start_offset,
    )


def _decode_producer(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp_ms: int,
    coordinator_epoch: int,
    transaction_start_offset: int,
) -> Producer:
    producer = Producer(producer_id)
    producer.epoch = epoch
    producer.last_timestamp_ms = timestamp_ms
    producer.coordinator_epoch = coordinator_epoch
    producer.transaction_start_offset = transaction_start_offset
    if last_offset >= 0:
        producer.batches.append(ProducedBatch(last_sequence, last_offset, offset_delta, timestamp_ms))
    return producer
