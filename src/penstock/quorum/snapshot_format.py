"""The content of a snapshot of the metadata log, in Kafka's format (KIP-630).

A snapshot consists of batches, as a log does:

    control batch: SnapshotHeader, and with KRaft version 1 also KRaftVersion and Voters | data batches | SnapshotFooter

A snapshot is checked as a whole before any part of it is used; a damaged one is `CorruptSnapshot`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from penstock.protocol.codec import codec
from penstock.protocol.errors import MalformedMessage
from penstock.protocol.messages import control_records as messages
from penstock.quorum.control import (
    ControlRecord,
    encode_control,
    kraft_version_record,
    read_kraft_version,
    read_voters,
    voters_record,
)
from penstock.quorum.log import BATCH_BYTES_MAX, DataBatch, build_control_batch, build_data_batch
from penstock.quorum.voters import Voters
from penstock.records import kernel
from penstock.records.batch import BatchHeader, Buffer, Record, assign_offsets
from penstock.records.control import ControlType, read_control_type
from penstock.records.errors import RecordsError

# A batch of a snapshot. Smaller than Kafka's limit, because a reader decodes a whole batch at once.
DATA_BATCH_BYTES = BATCH_BYTES_MAX // 8
RECORD_OVERHEAD_BYTES_MAX = 32  # lengths and deltas of a record in a batch


class CorruptSnapshot(Exception):
    """A snapshot cannot be read: it is damaged, or newer software wrote it."""


class SnapshotHead(NamedTuple):
    """The control records at the beginning of a snapshot."""

    voters: Voters | None
    kraft_version: int
    last_timestamp_ms: int
    """The timestamp of the last record that the snapshot contains."""


def snapshot_batches(
    head: SnapshotHead, values: Iterable[bytes], *, epoch: int, now_ms: int
) -> Iterator[bytearray]:
    """The batches of a snapshot. Their offsets count from 0."""
    offset = 0
    for batch in _batches_without_offsets(head, values, now_ms):
        assign_offsets(batch, 0, base_offset=offset, leader_epoch=epoch)
        offset += kernel.read_header(batch).record_count
        yield batch


def _batches_without_offsets(head: SnapshotHead, values: Iterable[bytes], now_ms: int) -> Iterator[bytearray]:
    header = messages.SnapshotHeaderRecord(version=0, last_contained_log_timestamp=head.last_timestamp_ms)
    first: list[ControlRecord] = [encode_control(ControlType.SNAPSHOT_HEADER, header)]
    if head.kraft_version > 0:
        first.append(kraft_version_record(head.kraft_version))
        if head.voters is not None:
            first.append(voters_record(head.voters))
    yield build_control_batch(first, timestamp_ms=now_ms)
    for piece in _split(values):
        yield build_data_batch(piece, timestamp_ms=now_ms)
    footer = encode_control(ControlType.SNAPSHOT_FOOTER, messages.SnapshotFooterRecord(version=0))
    yield build_control_batch([footer], timestamp_ms=now_ms)


def read_snapshot(data: Buffer, name: str) -> tuple[SnapshotHead, Iterator[DataBatch]]:
    """Check a whole snapshot and read its head. The data batches are decoded one by one, while they are iterated."""
    try:
        headers = kernel.check_batches(data)
        if len(headers) < 2:
            raise CorruptSnapshot(f"{name} is incomplete")
        head = _read_head(list(_records(data, headers[0], 0)), name)
        footer = headers[-1]
        if not any(
            read_control_type(record) is ControlType.SNAPSHOT_FOOTER
            for record in _records(data, footer, len(data) - footer.size_bytes)
        ):
            raise CorruptSnapshot(f"{name} has no footer: it is incomplete")
    except (RecordsError, MalformedMessage) as error:
        raise CorruptSnapshot(f"{name} is damaged: {error}") from error
    return head, _data_batches(data, headers)


def _read_head(control: list[Record], name: str) -> SnapshotHead:
    voters, kraft_version = None, 0
    if not control or read_control_type(control[0]) is not ControlType.SNAPSHOT_HEADER:
        raise CorruptSnapshot(f"{name} has no header: it is not a snapshot")
    header, _ = codec(messages.SnapshotHeaderRecord, 0).decode(control[0].value or b"")
    for record in control[1:]:
        voters = read_voters(record) or voters
        kraft_version = read_kraft_version(record) or kraft_version
    return SnapshotHead(voters, kraft_version, header.last_contained_log_timestamp)


def _records(data: Buffer, header: BatchHeader, position: int) -> Iterator[Record]:
    """The control records of a batch."""
    return kernel.iterate_records(data, position) if header.is_control else iter(())


def _data_batches(data: Buffer, headers: list[BatchHeader]) -> Iterator[DataBatch]:
    position = 0
    for header in headers:
        if not header.is_control:
            values = [record.value or b"" for record in kernel.iterate_records(data, position)]
            yield DataBatch(header.last_offset, header.leader_epoch, values)
        position += header.size_bytes


def _split(values: Iterable[bytes]) -> Iterator[list[bytes]]:
    piece: list[bytes] = []
    size = 0
    for value in values:
        needed = len(value) + RECORD_OVERHEAD_BYTES_MAX
        if piece and size + needed > DATA_BATCH_BYTES:
            yield piece
            piece, size = [], 0
        piece.append(value)
        size += needed
    if piece:
        yield piece
