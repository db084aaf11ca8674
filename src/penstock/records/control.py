"""Control records: what brokers write between the records of clients, to end transactions and to mark elections.

The key is a version and a type, two 16-bit numbers. The value is the type's own: for the end of a transaction a version
and the epoch of its coordinator; the others are messages of the protocol, which `quorum` encodes.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from penstock.records import kernel
from penstock.records.batch import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NewRecord, Record
from penstock.records.errors import InvalidBatch

EPOCH_BUMPS = 2
"""The transaction version from which on every end of a transaction raises the producer's epoch (KIP-890)."""

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


class EndTransaction(NamedTuple):
    is_commit: bool
    coordinator_epoch: int


class EndedTransaction(NamedTuple):
    """What is written into every partition of a transaction to end it."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int
    """From `EPOCH_BUMPS` on a late marker is known as such by its epoch."""


def control_batch(
    control_type: ControlType,
    value: bytes,
    *,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    is_transactional: bool = False,
) -> bytearray:
    """A batch of one control record."""
    record = NewRecord(timestamp_ms, _KEY.pack(KEY_VERSION, control_type), value)
    return kernel.build_batch(
        [record],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=is_transactional,
        is_control=True,
    )


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
    """The marker that ends a producer's transaction in one partition."""
    return control_batch(
        ControlType.COMMIT if is_commit else ControlType.ABORT,
        _END_TRANSACTION.pack(END_TRANSACTION_VERSION, coordinator_epoch),
        timestamp_ms=timestamp_ms,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
    )


def read_control_type(record: Record) -> ControlType | None:
    """The type of a control record; None for one that a newer Kafka defined, which readers pass over."""
    try:
        version, number = _KEY.unpack_from(record.key or b"")
    except StructError as exc:
        raise InvalidBatch("a control record's key is too short") from exc
    if version < 0:
        raise InvalidBatch(f"a control record's key has version {version}")
    return ControlType(number) if number in ControlType.__members__.values() else None


def read_end_transaction(record: Record) -> EndTransaction | None:
    """What a marker says; None for control records of other types."""
    control_type = read_control_type(record)
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    try:
        _, coordinator_epoch = _END_TRANSACTION.unpack_from(record.value or b"")
    except StructError as exc:
        raise InvalidBatch("the end of a transaction has no coordinator epoch") from exc
    return EndTransaction(control_type is ControlType.COMMIT, coordinator_epoch)
