"""Faults that are put into transactions on purpose, and have to be found: see `harness.mutations`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from harness.mutations import Mutation, find_out
from penstock.coordinator.group.offsets import Offsets
from penstock.coordinator.group.transactional_commit import TransactionalCommits
from penstock.coordinator.outcome import Outcome
from penstock.coordinator.txn import adding, ending, initiating
from penstock.coordinator.txn.markers import Markers
from penstock.coordinator.txn.shard import TransactionShard
from penstock.coordinator.txn.transaction import PREPARED, State, Transaction
from penstock.protocol.errors import ErrorCode
from penstock.replication.partition import Partition
from penstock.storage import producer_state
from penstock.storage.loading import _Loader
from penstock.storage.producer_state import ProducerState
from penstock.storage.transactions.unstable import UnstableTransactions

SEEDS_AT_MOST = 60


# What readers see


def shows_records_of_open_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "last_stable_offset", property(lambda partition: partition.high_watermark))


def shows_records_when_the_newest_transaction_has_ended(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        UnstableTransactions,
        "first_offset",
        lambda transactions: next(reversed(transactions.open)) if transactions.open else None,
    )


def tells_too_few_aborted_transactions(patch: pytest.MonkeyPatch) -> None:
    read = Partition.read

    def read_and_tell(partition: Partition, *arguments: Any, aborted: Any = None, **named: Any) -> Any:
        records = read(partition, *arguments, aborted=aborted, **named)
        del (aborted or [])[:1]
        return records

    patch.setattr(Partition, "read", read_and_tell)


def takes_more_for_aborted_than_was(patch: pytest.MonkeyPatch) -> None:
    read = Partition.read

    def read_and_tell(partition: Partition, *arguments: Any, aborted: Any = None, **named: Any) -> Any:
        records = read(partition, *arguments, aborted=aborted, **named)
        if aborted:
            aborted[:] = [each._replace(first_offset=each.first_offset - 10) for each in aborted]
        return records

    patch.setattr(Partition, "read", read_and_tell)


# What partitions let in


def takes_records_of_older_epochs(patch: pytest.MonkeyPatch) -> None:
    def check_nothing(*args: Any, **named: Any) -> None:
        pass

    patch.setattr(producer_state, "_check_epoch", check_nothing)

    def has_open_transaction(state: ProducerState, producer_id: int, producer_epoch: int = 0) -> bool:
        producer = state.get(producer_id)
        return producer is not None and producer.transaction_start_offset >= 0

    def needs_verification(partition: Partition, producer_id: int, producer_epoch: int = 0) -> bool:
        return not has_open_transaction(partition.log.producers, producer_id)

    patch.setattr(ProducerState, "has_open_transaction", has_open_transaction)
    patch.setattr(Partition, "needs_verification", needs_verification)


def takes_markers_of_older_coordinators(patch: pytest.MonkeyPatch) -> None:
    check = ProducerState.check_marker

    def check_all_but_the_coordinator(state: ProducerState, marker: Any) -> None:
        check(state, marker._replace(coordinator_epoch=1 << 30))

    patch.setattr(ProducerState, "check_marker", check_all_but_the_coordinator)


def lets_anybody_begin_a_transaction_in_a_partition(patch: pytest.MonkeyPatch) -> None:
    """Neither is the coordinator asked, nor is a guard wanted. (A guard that is wanted and never out of force is not
    found: while coordinators are in the same node, nothing comes between asking and writing that epochs do not catch.)
    """
    patch.setattr(ProducerState, "_check_transaction", lambda state, header, producer, guard: None)
    patch.setattr(Partition, "needs_verification", lambda partition, producer_id, producer_epoch: False)


def forgets_open_transactions_when_it_starts(patch: pytest.MonkeyPatch) -> None:
    load = _Loader.load

    def load_without(loader: _Loader, **arguments: Any) -> Any:
        loaded = load(loader, **arguments)
        loaded.producers = ProducerState()
        return loaded

    patch.setattr(_Loader, "load", load_without)


# What the coordinator decides


def does_not_know_producers_by_their_epoch(patch: pytest.MonkeyPatch) -> None:
    check_producer, check, check_repeatable = adding.check_producer, ending._check, ending._check_repeatable

    def with_present_epoch(decide: Callable[..., Any]) -> Callable[..., Any]:
        def decide_for_anybody(transaction: Transaction | None, producer: Any, **named: Any) -> Any:
            if transaction is not None:
                producer = producer._replace(epoch=transaction.client.epoch)
            return decide(transaction, producer, **named)

        return decide_for_anybody

    patch.setattr(adding, "check_producer", with_present_epoch(check_producer))
    patch.setattr(ending, "_check", with_present_epoch(check))
    patch.setattr(ending, "_check_repeatable", with_present_epoch(check_repeatable))


def gives_the_same_epoch_to_everybody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(initiating, "raised", lambda client, new_producer_id: client)


def sends_markers_before_the_decision_is_safe(patch: pytest.MonkeyPatch) -> None:
    end = TransactionShard.end

    def end_at_once(shard: TransactionShard, request: Any, **named: Any) -> Any:
        outcome = end(shard, request, **named)
        if outcome.when_committed is not None:
            asyncio.get_running_loop().call_soon(outcome.when_committed, ErrorCode.NONE)
        return Outcome(outcome.response, outcome.records)

    patch.setattr(TransactionShard, "end", end_at_once)


def is_content_with_one_marker(patch: pytest.MonkeyPatch) -> None:
    send = Markers.send

    def send_one(markers: Markers, transactional_id: str, transaction: Transaction) -> None:
        send(markers, transactional_id, transaction._replace(partitions=transaction.partitions[:1]))

    patch.setattr(Markers, "send", send_one)


def forgets_what_was_decided_when_it_loads(patch: pytest.MonkeyPatch) -> None:
    loaded = TransactionShard.loaded

    def loaded_undecided(shard: TransactionShard) -> None:
        for transactional_id, transaction in list(shard.transactions.items()):
            if transaction.state in PREPARED:
                shard.transactions[transactional_id] = transaction._replace(state=State.PREPARE_ABORT)
        loaded(shard)

    patch.setattr(TransactionShard, "loaded", loaded_undecided)


def never_loses_patience(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionShard, "_set_deadline", lambda shard, transactional_id, delay_ms: None)


def loses_patience_with_what_is_prepared(patch: pytest.MonkeyPatch) -> None:
    init_producer_id = TransactionShard.init_producer_id

    def init_with_deadline(shard: TransactionShard, transactional_id: str, request: Any) -> Any:
        keeps = request.keep_prepared_txn
        request.enable_2pc = False
        outcome = init_producer_id(shard, transactional_id, request)
        request.keep_prepared_txn = keeps
        return outcome

    patch.setattr(TransactionShard, "init_producer_id", init_with_deadline)


# What groups make of it


def applies_offsets_at_once(patch: pytest.MonkeyPatch) -> None:
    replay = TransactionalCommits.replay

    def replay_and_apply(commits: TransactionalCommits, producer_id: int, key: Any, value: Any) -> None:
        replay(commits, producer_id, key, value)
        commits.ended(producer_id, is_commit=True)

    patch.setattr(TransactionalCommits, "replay", replay_and_apply)


def drops_offsets_of_committed_transactions(patch: pytest.MonkeyPatch) -> None:
    ended = TransactionalCommits.ended
    patch.setattr(
        TransactionalCommits,
        "ended",
        lambda commits, producer_id, *, is_commit: ended(commits, producer_id, is_commit=False),
    )


def tells_offsets_that_are_about_to_change(patch: pytest.MonkeyPatch) -> None:
    fetch = Offsets.fetch
    patch.setattr(
        Offsets,
        "fetch",
        lambda offsets, request, *, require_stable, version: fetch(
            offsets, request, require_stable=False, version=version
        ),
    )


def takes_offsets_of_members_that_were_put_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionalCommits, "_check", lambda commits, request, version: None)


@pytest.mark.parametrize(
    ("mutation", "first_seed"),
    [
        (shows_records_of_open_transactions, 0),
        (shows_records_when_the_newest_transaction_has_ended, 0),
        (tells_too_few_aborted_transactions, 0),
        (takes_more_for_aborted_than_was, 0),
        (takes_records_of_older_epochs, 2),
        (takes_markers_of_older_coordinators, 0),
        (lets_anybody_begin_a_transaction_in_a_partition, 0),
        (forgets_open_transactions_when_it_starts, 0),
        (does_not_know_producers_by_their_epoch, 0),
        (gives_the_same_epoch_to_everybody, 0),
        (sends_markers_before_the_decision_is_safe, 55),
        (is_content_with_one_marker, 0),
        (forgets_what_was_decided_when_it_loads, 1),
        (never_loses_patience, 0),
        (loses_patience_with_what_is_prepared, 0),
        (applies_offsets_at_once, 0),
        (drops_offsets_of_committed_transactions, 0),
        (tells_offsets_that_are_about_to_change, 23),
        (takes_offsets_of_members_that_were_put_out, 6),
    ],
)
def test_transactions_with_this_fault_are_found_out(
    mutation: Mutation, first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`first_seed` is one that found it once, to be quick; others will do as well."""
    find_out(mutation, monkeypatch, range(first_seed, first_seed + SEEDS_AT_MOST), has_transactions=True)
