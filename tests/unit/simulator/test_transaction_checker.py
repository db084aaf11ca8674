"""The checker of transactions: one small history for each anomaly, and similar ones that are correct."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from simulator.transactions.checker import Kind, find_anomalies
from simulator.transactions.history import (
    Advance,
    History,
    OffsetRead,
    Outcome,
    Partition,
    Poll,
    Seen,
    Transaction,
    Write,
)

A: Partition = ("a", 0)
B: Partition = ("b", 0)
GROUP = "movers"


def transact(
    history: History,
    name: str,
    *,
    outcome: Outcome = Outcome.COMMITTED,
    writes: Sequence[tuple[Partition, int]] = (),
    commit_asked_at: float | None = 1.0,
    **also: Sequence[Seen] | Sequence[Advance],
) -> Transaction:
    """A transaction that writes `name/0`, `name/1` ... to these partitions, at these offsets."""
    transaction = history.begin(name)
    transaction.writes = [
        Write(partition, f"{name}/{number}".encode(), offset)
        for number, (partition, offset) in enumerate(writes)
    ]
    transaction.outcome = outcome
    if commit_asked_at is not None:
        transaction.commit_asked_at = commit_asked_at
    for field, values in also.items():
        setattr(transaction, field, list(values))
    return transaction


def seen(partition: Partition, offset: int, value: str) -> Seen:
    return Seen(partition, offset, value.encode())


def poll(
    history: History,
    partition: Partition,
    records: dict[int, str],
    *,
    reader: str = "reader",
    offset: int | None = None,
    next_offset: int | None = None,
    at: float = 9.0,
    is_committed: bool = True,
) -> None:
    offsets = list(records)
    history.polls.append(
        Poll(
            reader=reader,
            is_committed=is_committed,
            partition=partition,
            offset=offsets[0] if offset is None else offset,
            next_offset=offsets[-1] + 1 if next_offset is None else next_offset,
            records=[seen(partition, at_offset, value) for at_offset, value in records.items()],
            at=at,
        )
    )


def kinds(history: History) -> list[Kind]:
    found = find_anomalies(history)
    print(*found, sep="\n")
    return [anomaly.kind for anomaly in found]


@pytest.fixture
def history() -> History:
    return History()


def test_a_correct_history_has_no_anomaly(history: History) -> None:
    transact(history, "t", writes=[(A, 0), (B, 0)])
    transact(history, "u", outcome=Outcome.ABORTED, writes=[(A, 1), (B, 1)], commit_asked_at=None)
    transact(history, "v", writes=[(A, 3)], advances=[Advance(GROUP, B, 0, 2)])
    poll(history, A, {0: "t/0", 3: "v/0"})
    poll(history, B, {0: "t/1"}, next_offset=3)
    poll(history, A, {0: "t/0", 1: "u/0", 3: "v/0"}, reader="raw", at=0.5, is_committed=False)
    history.offset_reads.append(OffsetRead(GROUP, B, 2, "v", at=9.0))

    assert kinds(history) == []


def test_a_committed_record_that_is_never_returned_is_a_lost_write(history: History) -> None:
    transact(history, "t", writes=[(A, 0), (B, 0)])
    poll(history, A, {0: "t/0"})

    assert kinds(history) == [Kind.LOST_WRITE]


def test_a_record_of_an_aborted_transaction_is_an_aborted_read(history: History) -> None:
    transact(history, "t", outcome=Outcome.ABORTED, writes=[(A, 0)], commit_asked_at=None)
    poll(history, A, {0: "t/0"})

    assert kinds(history) == [Kind.ABORTED_READ]


def test_read_uncommitted_may_return_aborted_records(history: History) -> None:
    transact(history, "t", outcome=Outcome.ABORTED, writes=[(A, 0)], commit_asked_at=None)
    poll(history, A, {0: "t/0"}, is_committed=False)

    assert kinds(history) == []


def test_a_record_returned_before_the_commit_request_is_an_intermediate_read(
    history: History,
) -> None:
    transact(history, "t", writes=[(A, 0)], commit_asked_at=5.0)
    poll(history, A, {0: "t/0"}, at=4.9)

    assert kinds(history) == [Kind.INTERMEDIATE_READ]


def test_a_prepared_transaction_that_never_ends_must_not_be_seen(history: History) -> None:
    transact(history, "t", outcome=Outcome.OPEN, writes=[(A, 0)], commit_asked_at=None)
    poll(history, A, {0: "t/0"})

    assert kinds(history) == [Kind.INTERMEDIATE_READ]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_transaction_with_unknown_outcome_may_be_there_or_not(history: History, is_there: bool) -> None:
    transact(history, "t", outcome=Outcome.UNKNOWN, writes=[(A, 0), (B, 0)])
    if is_there:
        poll(history, A, {0: "t/0"})
        poll(history, B, {0: "t/1"})

    assert kinds(history) == []


def test_half_of_a_transaction_with_unknown_outcome_is_torn(history: History) -> None:
    transact(history, "t", outcome=Outcome.UNKNOWN, writes=[(A, 0), (B, 0)])
    poll(history, A, {0: "t/0"})

    assert kinds(history) == [Kind.TORN]


def test_a_record_at_two_offsets_is_a_duplicate(history: History) -> None:
    transact(history, "t", writes=[(A, 0)])
    poll(history, A, {0: "t/0", 1: "t/0"})

    assert kinds(history) == [Kind.DUPLICATE]


def test_an_offset_with_two_records_is_inconsistent(history: History) -> None:
    transact(history, "t", writes=[(A, 0)])
    transact(history, "u", writes=[(A, 1)])
    poll(history, A, {0: "t/0", 1: "u/0"})
    poll(history, A, {0: "u/0"}, reader="other", next_offset=1)

    assert kinds(history) == [Kind.INCONSISTENT_OFFSET]


def test_a_record_must_have_its_acknowledged_offset(history: History) -> None:
    transact(history, "t", writes=[(A, 0)])
    poll(history, A, {3: "t/0"})

    assert Kind.DUPLICATE in kinds(history)


def test_a_record_that_no_client_wrote_there_is_a_phantom(history: History) -> None:
    transact(history, "t", writes=[(A, 0)])
    poll(history, A, {0: "t/0"})
    poll(history, B, {0: "who?", 1: "t/0"})

    assert kinds(history) == [Kind.PHANTOM, Kind.PHANTOM]


def test_a_poll_that_misses_a_committed_record_skips(history: History) -> None:
    transact(history, "t", writes=[(A, 0), (A, 1), (A, 2)])
    poll(history, A, {0: "t/0", 1: "t/1", 2: "t/2"})
    poll(history, A, {0: "t/0", 2: "t/2"}, reader="other")

    assert kinds(history) == [Kind.SKIPPING_POLL]


def test_polls_that_leave_a_gap_between_them_skip(history: History) -> None:
    transact(history, "t", writes=[(A, 0), (A, 1), (A, 2)])
    poll(history, A, {0: "t/0", 1: "t/1", 2: "t/2"})
    poll(history, A, {0: "t/0"}, reader="other")
    poll(history, A, {2: "t/2"}, reader="other")

    assert kinds(history) == [Kind.SKIPPING_POLL]


@pytest.mark.parametrize("next_offset", [1, 2])
def test_a_reader_may_have_read_only_the_beginning(history: History, next_offset: int) -> None:
    transact(history, "t", writes=[(A, 0), (A, 2)])
    poll(history, A, {0: "t/0", 2: "t/1"})
    poll(history, A, {0: "t/0"}, reader="other", next_offset=next_offset)

    assert kinds(history) == []


def test_a_reader_that_gets_earlier_records_again_is_nonmonotonic(history: History) -> None:
    transact(history, "t", writes=[(A, 0), (A, 1)])
    poll(history, A, {0: "t/0", 1: "t/1"})
    poll(history, A, {0: "t/0", 1: "t/1"})

    assert kinds(history) == [Kind.NONMONOTONIC_POLL]


def test_a_poll_out_of_order_is_nonmonotonic(history: History) -> None:
    transact(history, "t", writes=[(A, 0), (A, 1)])
    poll(history, A, {1: "t/1", 0: "t/0"}, offset=0, next_offset=2)

    assert kinds(history) == [Kind.NONMONOTONIC_POLL]


def test_an_offset_of_an_aborted_transaction_diverges(history: History) -> None:
    transact(
        history,
        "t",
        outcome=Outcome.ABORTED,
        writes=[(B, 0)],
        commit_asked_at=None,
        advances=[Advance(GROUP, A, 0, 1)],
    )
    history.offset_reads.append(OffsetRead(GROUP, A, 1, "t", at=9.0))

    assert kinds(history) == [Kind.OFFSETS_DIVERGED]


def test_an_offset_of_an_open_transaction_is_an_intermediate_read(history: History) -> None:
    transact(history, "t", commit_asked_at=5.0, advances=[Advance(GROUP, A, 0, 1)])
    history.offset_reads.append(OffsetRead(GROUP, A, 1, "t", at=4.0))

    assert kinds(history) == [Kind.INTERMEDIATE_READ]


def test_records_without_their_offset_diverge(history: History) -> None:
    transact(history, "t", writes=[(B, 0)], advances=[Advance(GROUP, A, 0, 3)])
    poll(history, B, {0: "t/0"})
    history.offset_reads.append(OffsetRead(GROUP, A, -1, None, at=9.0))

    assert kinds(history) == [Kind.OFFSETS_DIVERGED]


def test_an_offset_without_its_records_is_torn(history: History) -> None:
    transact(history, "t", outcome=Outcome.UNKNOWN, writes=[(B, 0)], advances=[Advance(GROUP, A, 0, 3)])
    history.offset_reads.append(OffsetRead(GROUP, A, 3, "t", at=9.0))

    assert kinds(history) == [Kind.TORN]


def test_input_of_two_committed_transactions_is_consumed_twice(history: History) -> None:
    transact(history, "input", writes=[(A, 0), (A, 1)])
    transact(history, "t", advances=[Advance(GROUP, A, 0, 2)])
    transact(history, "u", advances=[Advance(GROUP, A, 1, 2)])
    transact(history, "v", outcome=Outcome.ABORTED, advances=[Advance(GROUP, A, 0, 2)], commit_asked_at=None)
    transact(history, "w", advances=[Advance("another group", A, 0, 2)])
    poll(history, A, {0: "input/0", 1: "input/1"})

    assert kinds(history) == [Kind.CONSUMED_TWICE]


def test_input_between_two_transactions_is_never_consumed(history: History) -> None:
    transact(history, "input", writes=[(A, 0), (A, 1), (A, 2)])
    transact(history, "t", advances=[Advance(GROUP, A, 0, 1)])
    transact(history, "u", advances=[Advance(GROUP, A, 2, 3)])
    poll(history, A, {0: "input/0", 1: "input/1", 2: "input/2"})

    assert kinds(history) == [Kind.NEVER_CONSUMED]


def test_records_that_were_never_visible_need_no_consumer(history: History) -> None:
    transact(history, "input", writes=[(A, 0), (A, 2)])
    transact(history, "t", advances=[Advance(GROUP, A, 0, 1)])
    transact(history, "u", advances=[Advance(GROUP, A, 2, 3)])
    poll(history, A, {0: "input/0", 2: "input/1"})

    assert kinds(history) == []


def test_two_transactions_that_read_each_other_are_a_circular_flow(history: History) -> None:
    transact(history, "t", writes=[(A, 0)], reads=[seen(B, 0, "u/0")])
    transact(history, "u", writes=[(B, 0)], reads=[seen(A, 0, "t/0")])
    poll(history, A, {0: "t/0"})
    poll(history, B, {0: "u/0"})

    assert kinds(history) == [Kind.CIRCULAR_FLOW]


def test_a_transaction_that_read_its_own_records_is_a_circular_flow(history: History) -> None:
    transact(history, "t", writes=[(A, 0)], reads=[seen(A, 0, "t/0")])
    poll(history, A, {0: "t/0"})

    assert kinds(history) == [Kind.CIRCULAR_FLOW]


def test_a_chain_of_reads_is_not_a_cycle(history: History) -> None:
    transact(history, "t", writes=[(A, 0)])
    transact(history, "u", writes=[(B, 0)], reads=[seen(A, 0, "t/0")])
    transact(history, "v", writes=[(B, 1)], reads=[seen(A, 0, "t/0"), seen(B, 0, "u/0")])
    poll(history, A, {0: "t/0"})
    poll(history, B, {0: "u/0", 1: "v/0"})

    assert kinds(history) == []


def test_writes_in_different_orders_are_allowed_as_in_kafka(history: History) -> None:
    transact(history, "t", writes=[(A, 0), (B, 1)])
    transact(history, "u", writes=[(B, 0), (A, 1)])
    poll(history, A, {0: "t/0", 1: "u/1"})
    poll(history, B, {0: "u/0", 1: "t/1"})

    assert kinds(history) == []


def test_reads_of_an_aborted_transaction_are_no_anomaly(history: History) -> None:
    transact(history, "t", writes=[(A, 0)], reads=[seen(B, 0, "u/0")])
    transact(
        history,
        "u",
        outcome=Outcome.ABORTED,
        writes=[(B, 0)],
        reads=[seen(A, 0, "t/0")],
        commit_asked_at=None,
    )
    poll(history, A, {0: "t/0"})

    assert kinds(history) == []
