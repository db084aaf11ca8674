"""Pending transactional offsets: which of them are applied."""

from __future__ import annotations

from penstock.coordinator.group.offsets.pending import PendingOffsets
from penstock.coordinator.group.records.offsets import OffsetCommitValue

ANNA, BERT = 7, 8


def value(offset: int) -> OffsetCommitValue:
    return OffsetCommitValue(offset=offset, metadata="", commit_timestamp=0)


def put(pending: PendingOffsets, producer_id: int, offset: int, *, partition: int = 0) -> None:
    pending.put(producer_id, "readers", "orders", partition, value(offset))


def committed(pending: PendingOffsets, producer_id: int) -> dict[tuple[str, str, int], int]:
    return {
        (each.group_id, each.topic, each.partition): each.value.offset
        for each in pending.end(producer_id, is_commit=True)
    }


def test_the_last_offset_of_a_partition_is_applied_when_the_transaction_is_committed() -> None:
    pending = PendingOffsets()
    put(pending, ANNA, 1)
    put(pending, ANNA, 5, partition=1)
    put(pending, ANNA, 2)

    assert committed(pending, ANNA) == {("readers", "orders", 0): 2, ("readers", "orders", 1): 5}
    assert not pending
    assert committed(pending, ANNA) == {}


def test_offsets_of_an_aborted_transaction_are_not_applied() -> None:
    pending = PendingOffsets()
    put(pending, ANNA, 1)

    assert pending.end(ANNA, is_commit=False) == []
    assert not pending


def test_one_transaction_may_commit_for_several_groups() -> None:
    pending = PendingOffsets()
    put(pending, ANNA, 1)
    pending.put(ANNA, "others", "orders", 0, value(9))

    assert committed(pending, ANNA) == {("readers", "orders", 0): 1, ("others", "orders", 0): 9}


def test_pending_offsets_are_found_by_group_partition_and_topic() -> None:
    pending = PendingOffsets()
    assert not pending
    put(pending, ANNA, 1)
    put(pending, BERT, 2)
    put(pending, BERT, 3, partition=1)

    assert pending
    assert pending.has("readers", "orders", 0)
    assert not pending.has("readers", "orders", 2)
    assert not pending.has("others", "orders", 0)
    assert list(pending.of_group("readers")) == [("orders", 0), ("orders", 1)]
    assert not pending.of_group("others")
    assert [(group, index, stored.offset) for group, index, stored in pending.of_topic("orders")] == [
        ("readers", 0, 1),
        ("readers", 0, 2),
        ("readers", 1, 3),
    ]
    assert not list(pending.of_topic("payments"))


def test_a_partition_is_pending_until_the_last_transaction_ends() -> None:
    pending = PendingOffsets()
    put(pending, ANNA, 1)
    put(pending, BERT, 2)

    pending.end(ANNA, is_commit=False)
    assert pending.has("readers", "orders", 0)
    pending.end(BERT, is_commit=True)
    assert not pending.has("readers", "orders", 0)


def test_a_superseded_offset_is_not_applied_but_stays_pending() -> None:
    pending = PendingOffsets()
    put(pending, ANNA, 1)
    put(pending, ANNA, 5, partition=1)

    pending.supersede("readers", "orders", 0)
    pending.supersede("readers", "payments", 0)
    pending.supersede("others", "orders", 1)

    assert pending.has("readers", "orders", 0)
    assert committed(pending, ANNA) == {("readers", "orders", 1): 5}


def test_an_offset_that_is_committed_again_after_it_was_superseded_is_applied() -> None:
    pending = PendingOffsets()
    put(pending, ANNA, 1)
    pending.supersede("readers", "orders", 0)
    put(pending, ANNA, 2)

    assert committed(pending, ANNA) == {("readers", "orders", 0): 2}


def test_of_two_transactions_the_later_record_is_applied_whichever_ends_first() -> None:
    pending = PendingOffsets()
    put(pending, ANNA, 1)
    put(pending, BERT, 2)

    assert committed(pending, BERT) == {("readers", "orders", 0): 2}
    assert committed(pending, ANNA) == {}

    put(pending, ANNA, 1)
    put(pending, BERT, 2)
    assert committed(pending, ANNA) == {("readers", "orders", 0): 1}
    assert committed(pending, BERT) == {("readers", "orders", 0): 2}


def test_an_aborted_transaction_supersedes_nothing() -> None:
    pending = PendingOffsets()
    put(pending, ANNA, 1)
    put(pending, BERT, 2)

    pending.end(BERT, is_commit=False)

    assert committed(pending, ANNA) == {("readers", "orders", 0): 1}


def test_a_producer_that_commits_again_comes_last() -> None:
    pending = PendingOffsets()
    put(pending, ANNA, 1)
    put(pending, BERT, 2)
    put(pending, ANNA, 3)

    assert committed(pending, ANNA) == {("readers", "orders", 0): 3}
    assert committed(pending, BERT) == {}


def test_deleting_an_offset_removes_all_pending_offsets_of_the_partition() -> None:
    pending = PendingOffsets()
    put(pending, ANNA, 1)
    put(pending, BERT, 2)
    put(pending, BERT, 3, partition=1)

    pending.remove("readers", "orders", 0)
    pending.remove("readers", "orders", 2)
    pending.remove("others", "orders", 0)

    assert not pending.has("readers", "orders", 0)
    assert committed(pending, ANNA) == {}
    assert committed(pending, BERT) == {("readers", "orders", 1): 3}
