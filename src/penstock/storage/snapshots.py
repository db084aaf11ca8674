"""Producer snapshots: `<offset>.snapshot` is the producer state when the log ended at that offset.

Kafka's format: version (int16, 1), CRC-32C (uint32) of everything after it, number of entries (int32), entries. It has
only the newest batch of each producer; `producer_history` finds the others when they are needed.
"""

from __future__ import annotations

import logging
import os
from bisect import insort
from collections.abc import Iterable
from struct import Struct

from penstock.records.crc import crc32c
from penstock.runtime.disk import Disk, File
from penstock.storage.errors import CorruptFile
from penstock.storage.files import save
from penstock.storage.layout import SNAPSHOT_SUFFIX, segment_file
from penstock.storage.producer_state import ProducedBatch, Producer

logger = logging.getLogger(__name__)

VERSION = 1

_HEAD = Struct(">hIi")
_ENTRIES_AT = 6  # the part that the CRC covers
_ENTRY = Struct(">qhiqiqiq")


def encode(producers: Iterable[Producer]) -> bytes:
    entries = b"".join([_encode_producer(producer) for producer in producers])
    data = bytearray(_HEAD.pack(VERSION, 0, len(entries) // _ENTRY.size) + entries)
    _HEAD.pack_into(data, 0, VERSION, crc32c(memoryview(data)[_ENTRIES_AT:]), len(entries) // _ENTRY.size)
    return bytes(data)


def decode(data: bytes) -> list[Producer]:
    """The producers in a snapshot; CorruptFile if it is torn, damaged or of another version."""
    if len(data) < _HEAD.size:
        raise CorruptFile(f"a producer snapshot of {len(data)} bytes is cut short")
    version, crc, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise CorruptFile(f"a producer snapshot has version {version}, not {VERSION}")
    if crc32c(memoryview(data)[_ENTRIES_AT:]) != crc:
        raise CorruptFile("a producer snapshot does not match its CRC")
    if len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptFile(f"a producer snapshot of {len(data)} bytes cannot hold {count} producers")
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


class SnapshotFiles:
    """The snapshot files of one log: one at the start of each segment, and one at the end of the log after a clean
    shutdown."""

    __slots__ = ("_disk", "_folder", "_offsets")

    def __init__(self, disk: Disk, folder: str, offsets: Iterable[int]) -> None:
        self._disk = disk
        self._folder = folder
        self._offsets = sorted(offsets)

    def offsets(self) -> list[int]:
        return list(self._offsets)

    def newest(self) -> int | None:
        return self._offsets[-1] if self._offsets else None

    def save(self, offset: int, producers: Iterable[Producer]) -> File | None:
        """Write a snapshot at `offset`; returns the file to sync, or None if it exists already."""
        if offset in self._offsets:
            return None
        insort(self._offsets, offset)
        return save(self._disk, self._path(offset), encode(producers))

    def load(self, *, end_offset: int) -> tuple[int, list[Producer]] | None:
        """The newest readable snapshot not above `end_offset`, and its offset; damaged ones are removed."""
        for offset in reversed(self._offsets):
            if offset > end_offset:
                continue
            try:
                return offset, decode(self._disk.read_file(self._path(offset)))
            except CorruptFile as error:
                logger.warning("%s is not used: %s", self._path(offset), error)
                self.remove(offset)
        return None

    def forget(self, offset: int) -> bool:
        """Forget a file that the caller deletes; False if there was none."""
        if offset not in self._offsets:
            return False
        self._offsets.remove(offset)
        return True

    def remove(self, offset: int) -> None:
        if self.forget(offset):
            self._disk.remove(self._path(offset))

    def remove_above(self, offset: int) -> None:
        for later in [known for known in self._offsets if known > offset]:
            self.remove(later)

    def remove_below(self, offset: int) -> None:
        for earlier in [known for known in self._offsets if known < offset]:
            self.remove(earlier)

    def remove_all(self) -> None:
        for offset in self.offsets():
            self.remove(offset)

    def move(self, folder: str) -> None:
        """The log's folder was renamed."""
        self._folder = folder

    def _path(self, offset: int) -> str:
        return os.path.join(self._folder, segment_file(offset, SNAPSHOT_SUFFIX))
