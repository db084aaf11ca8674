"""Control records: transaction markers, and the control records of the metadata log.

The key is a version and a type, two 16-bit numbers. The value of a transaction marker is a version and the coordinator
epoch; the other values are messages (`protocol.messages.control_records`), which `quorum` encodes.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from penstock.records import kernel
from penstock.records.batch import NO_LEADER_EPOCH, Buffer, NewRecord, Record
from penstock.records.errors import InvalidBatch

EPOCH_BUMPS = 2
"""The transaction version from which on the end of a transaction bumps the producer epoch (KIP-890)."""

KEY_VERSION = 0
END_TRANSACTION_VERSION = 0

_KEY = Struct(">hh")
_END_TRANSACTION = Struct(">hi")


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTransactionMarker(NamedTuple):
    is_commit: bool
    coordinator_epoch: int


class TxnMarkerEntry(NamedTuple):
    """The marker that ends a transaction, written to each of its partitions (WriteTxnMarkers)."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int
    """From `EPOCH_BUMPS` on, a late marker is recognized by its epoch."""


def control_key(control_type: ControlType) -> bytes:
    return _KEY.pack(KEY_VERSION, control_type)


def end_transaction_batch(
    *,
    is_commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """A batch with the marker that ends a producer's transaction in one partition."""
    control_type = ControlType.COMMIT if is_commit else ControlType.ABORT
    value = _END_TRANSACTION.pack(END_TRANSACTION_VERSION, coordinator_epoch)
    return kernel.build_batch(
        [NewRecord(timestamp_ms, control_key(control_type), value)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def read_control_type(record: Record) -> ControlType | None:
    """The type of a control record; None for a type of a newer Kafka, which readers skip."""
    try:
        version, number = _KEY.unpack_from(record.key or b"")
    except StructError as exc:
        raise InvalidBatch("a control record's key is too short") from exc
    if version < 0:
        raise InvalidBatch(f"a control record's key has version {version}")
    return ControlType(number) if number in ControlType.__members__.values() else None


def read_end_transaction(record: Record) -> EndTransactionMarker | None:
    """A transaction marker; None for control records of other types."""
    control_type = read_control_type(record)
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    try:
        _, coordinator_epoch = _END_TRANSACTION.unpack_from(record.value or b"")
    except StructError as exc:
        raise InvalidBatch("a transaction marker has no coordinator epoch") from exc
    return EndTransactionMarker(control_type is ControlType.COMMIT, coordinator_epoch)


def read_marker(view: Buffer, position: int) -> EndTransactionMarker | None:
    """The transaction marker in the control batch at `position`; None if it has none.

    Compaction may leave a control batch without its record.
    """
    for record in kernel.iterate_records(view, position):
        try:
            return read_end_transaction(record)
        except InvalidBatch:
            return None  # a malformed marker ends nothing
    return None
