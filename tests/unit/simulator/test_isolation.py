"""What a consumer returns from a log with transactions."""

from __future__ import annotations

import pytest

from penstock.protocol.messages.fetch import AbortedTransaction, PartitionData
from penstock.records import kernel
from penstock.records.batch import NewRecord
from penstock.records.control import end_transaction_batch
from simulator.simulation import BrokenPromise
from simulator.transactions.history import Partition
from simulator.transactions.isolation import (
    committed_by_markers,
    keep_all,
    keep_committed,
    read_batches,
)

PARTITION: Partition = ("t", 0)
ONE, OTHER = 1, 2


def records(producer_id: int, *values: str, offset: int, is_transactional: bool = True) -> bytes:
    return bytes(
        kernel.build_batch(
            [NewRecord(0, None, value.encode()) for value in values],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=is_transactional,
        )
    )


def end(producer_id: int, *, offset: int, is_commit: bool) -> bytes:
    return bytes(
        end_transaction_batch(
            is_commit=is_commit,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=0,
            base_offset=offset,
        )
    )


LOG = (
    records(ONE, "a", "b", offset=0),
    records(OTHER, "c", offset=2),
    records(-1, "plain", offset=3, is_transactional=False),
    end(ONE, offset=4, is_commit=False),
    records(ONE, "d", offset=5),
    end(OTHER, offset=6, is_commit=True),
    end(ONE, offset=7, is_commit=True),
)
ABORTED = (AbortedTransaction(producer_id=ONE, first_offset=0),)


def answer(
    *batches: bytes, aborted: tuple[AbortedTransaction, ...] = ABORTED, stable_offset: int = 8
) -> PartitionData:
    return PartitionData(
        partition_index=0,
        high_watermark=8,
        last_stable_offset=stable_offset,
        aborted_transactions=list(aborted),
        records=memoryview(b"".join(batches)),
    )


def committed(data: PartitionData, offset: int = 0) -> list[bytes]:
    batches = read_batches(data, PARTITION, offset)
    return [record.value for record in keep_committed(data, batches, PARTITION, offset)]


def test_read_uncommitted_returns_everything_but_markers() -> None:
    batches = read_batches(answer(*LOG), PARTITION, 0)

    assert [record.value for record in keep_all(batches, 1)] == [b"b", b"c", b"plain", b"d"]


def test_read_committed_skips_aborted_records() -> None:
    assert committed(answer(*LOG)) == [b"c", b"plain", b"d"]


def test_an_abort_ends_with_its_marker() -> None:
    assert committed(answer(*LOG[2:]), offset=3) == [b"plain", b"d"]


def test_markers_and_lists_of_aborted_transactions_agree() -> None:
    by_markers, left = committed_by_markers(read_batches(answer(*LOG), PARTITION, 0))

    assert [record.value for record in by_markers] == committed(answer(*LOG))
    assert left == []


def test_records_without_a_marker_are_open() -> None:
    by_markers, left = committed_by_markers(read_batches(answer(*LOG[:5]), PARTITION, 0))

    assert [record.value for record in by_markers] == [b"plain"]
    assert [record.value for record in left] == [b"c", b"d"]


def test_records_beyond_the_last_stable_offset_are_noticed() -> None:
    with pytest.raises(BrokenPromise, match="last stable offset 7"):
        committed(answer(*LOG, stable_offset=7))


def test_a_gap_between_batches_is_noticed() -> None:
    with pytest.raises(BrokenPromise, match="2 is missing, 3 comes next"):
        read_batches(answer(LOG[0], *LOG[2:]), PARTITION, 0)
