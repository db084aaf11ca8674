"""Control records are written as Kafka writes them; unknown types are skipped."""

from __future__ import annotations

import pytest

from penstock.records import kernel
from penstock.records.batch import Record
from penstock.records.control import (
    ControlType,
    EndTransactionMarker,
    control_key,
    end_transaction_batch,
    read_control_type,
    read_end_transaction,
)
from penstock.records.errors import InvalidBatch


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_ends_a_transaction(is_commit: bool) -> None:
    batch = end_transaction_batch(
        is_commit=is_commit,
        producer_id=77,
        producer_epoch=3,
        coordinator_epoch=9,
        timestamp_ms=1000,
        base_offset=40,
        leader_epoch=5,
    )

    header = kernel.check_batch(batch)
    (record,) = kernel.iterate_records(batch)

    assert header.is_control
    assert header.is_transactional
    assert (header.base_offset, header.leader_epoch) == (40, 5)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, -1)
    assert read_end_transaction(record) == EndTransactionMarker(is_commit, 9)
    assert record.key == bytes((0, 0, 0, is_commit))
    assert record.value == bytes((0, 0, 0, 0, 0, 9))


def test_a_leader_change_is_not_a_transaction_marker() -> None:
    record = Record(0, 1, control_key(ControlType.LEADER_CHANGE), b"message")

    assert read_control_type(record) is ControlType.LEADER_CHANGE
    assert read_end_transaction(record) is None


def test_an_unknown_control_type_is_skipped() -> None:
    record = Record(0, 1, bytes((0, 0, 0, 99)), b"")

    assert read_control_type(record) is None
    assert read_end_transaction(record) is None


@pytest.mark.parametrize(
    "record",
    [
        Record(0, 1, None, b""),
        Record(0, 1, b"\0\0", b""),
        Record(0, 1, b"\xff\xff\0\0", b""),
        Record(0, 1, bytes(4), b"\0"),
    ],
    ids=["no key", "short key", "negative version", "short value"],
)
def test_malformed_control_records_are_invalid(record: Record) -> None:
    with pytest.raises(InvalidBatch):
        read_end_transaction(record)
