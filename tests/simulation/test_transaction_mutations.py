"""Bugs put into transactions on purpose. The simulation must find them: see `harness.mutations`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from harness.mutations import Mutation, expect_detection
from penstock.broker import transactional_produce
from penstock.broker.handlers import txn_offset_commit
from penstock.coordinator.group.offsets.offsets import Offsets
from penstock.coordinator.group.offsets.transactional_commit import TransactionalCommits
from penstock.coordinator.result import CoordinatorResult
from penstock.coordinator.txn import add_partitions, end_txn, init_producer_id
from penstock.coordinator.txn.markers import MarkerSender
from penstock.coordinator.txn.shard import TransactionShard
from penstock.coordinator.txn.transaction import PREPARED, State, Transaction
from penstock.metadata.names import TRANSACTIONS_TOPIC
from penstock.protocol.errors import ErrorCode
from penstock.replication.partition import Partition
from penstock.storage import producer_state
from penstock.storage.flushing import Flusher
from penstock.storage.loading import _Loader
from penstock.storage.producer_state import ProducerState
from penstock.storage.transactions.unstable import UnstableTransactions
from simulator.scenario import run_seed
from simulator.transactions.shared import ACCOUNTS

SEEDS_AT_MOST = 60
SEED_OF_EARLY_MARKERS = 84
SLOW_SYNC_S = 0.2  # long enough for a power cut between two syncs


# Reads


def returns_records_of_open_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "last_stable_offset", property(lambda partition: partition.high_watermark))


def returns_records_when_the_newest_transaction_has_ended(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        UnstableTransactions,
        "first_offset",
        lambda transactions: next(reversed(transactions.open)) if transactions.open else None,
    )


def lists_too_few_aborted_transactions(patch: pytest.MonkeyPatch) -> None:
    read = Partition.read

    def read_and_change(partition: Partition, *arguments: Any, aborted: Any = None, **named: Any) -> Any:
        records = read(partition, *arguments, aborted=aborted, **named)
        del (aborted or [])[:1]
        return records

    patch.setattr(Partition, "read", read_and_change)


def lists_aborted_transactions_too_early(patch: pytest.MonkeyPatch) -> None:
    read = Partition.read

    def read_and_change(partition: Partition, *arguments: Any, aborted: Any = None, **named: Any) -> Any:
        records = read(partition, *arguments, aborted=aborted, **named)
        if aborted:
            aborted[:] = [each._replace(first_offset=each.first_offset - 10) for each in aborted]
        return records

    patch.setattr(Partition, "read", read_and_change)


# Appends


def accepts_records_of_older_epochs(patch: pytest.MonkeyPatch) -> None:
    def check_nothing(*args: Any, **named: Any) -> None:
        pass

    patch.setattr(producer_state, "_check_epoch", check_nothing)

    def has_open_transaction(state: ProducerState, producer_id: int, producer_epoch: int = 0) -> bool:
        producer = state.get(producer_id)
        return producer is not None and producer.transaction_start_offset >= 0

    def needs_verification(partition: Partition, producer_id: int, producer_epoch: int = 0) -> bool:
        return not has_open_transaction(partition.log.producers, producer_id)

    patch.setattr(ProducerState, "has_open_transaction", has_open_transaction)
    for module in (transactional_produce, txn_offset_commit):
        patch.setattr(module, "needs_verification", needs_verification)


def accepts_markers_of_older_coordinators(patch: pytest.MonkeyPatch) -> None:
    check = ProducerState.check_marker

    def check_all_but_the_coordinator(state: ProducerState, marker: Any) -> None:
        check(state, marker._replace(coordinator_epoch=1 << 30))

    patch.setattr(ProducerState, "check_marker", check_all_but_the_coordinator)


def does_not_verify_transactions(patch: pytest.MonkeyPatch) -> None:
    """The coordinator is not asked, and no guard is required. (A guard that is required but never invalidated is not
    found: while coordinators are in the same node, epochs catch everything that comes between asking and writing.)
    """
    patch.setattr(ProducerState, "_check_transaction", lambda state, header, producer, guard: None)
    for module in (transactional_produce, txn_offset_commit):
        patch.setattr(module, "needs_verification", lambda partition, producer_id, producer_epoch: False)


def forgets_open_transactions_when_it_starts(patch: pytest.MonkeyPatch) -> None:
    load = _Loader.load

    def load_without(loader: _Loader, **arguments: Any) -> Any:
        loaded = load(loader, **arguments)
        loaded.producers = ProducerState()
        return loaded

    patch.setattr(_Loader, "load", load_without)


# The transaction coordinator


def does_not_check_producer_epochs(patch: pytest.MonkeyPatch) -> None:
    check_producer, check, check_repeatable = (
        add_partitions.check_producer,
        end_txn._check,
        end_txn._check_repeatable,
    )

    def with_present_epoch(decide: Callable[..., Any]) -> Callable[..., Any]:
        def decide_for_anybody(transaction: Transaction | None, producer: Any, **named: Any) -> Any:
            if transaction is not None:
                producer = producer._replace(epoch=transaction.client.epoch)
            return decide(transaction, producer, **named)

        return decide_for_anybody

    patch.setattr(add_partitions, "check_producer", with_present_epoch(check_producer))
    patch.setattr(end_txn, "_check", with_present_epoch(check))
    patch.setattr(end_txn, "_check_repeatable", with_present_epoch(check_repeatable))


def never_raises_the_producer_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(init_producer_id, "bumped", lambda client, new_producer_id: client)


def syncs_slowly(patch: pytest.MonkeyPatch) -> None:
    """No bug: the logs of decisions and of one topic sync slowly. So a power cut can come when the marker of another
    topic is synced but the decision is not. With equal disks, that hardly ever happens.
    """
    request_sync = Flusher.request

    def request_later(flusher: Flusher, offset: int) -> None:
        if any(topic in flusher._name for topic in (TRANSACTIONS_TOPIC, ACCOUNTS)):
            asyncio.get_running_loop().call_later(SLOW_SYNC_S, request_sync, flusher, offset)
        else:
            request_sync(flusher, offset)

    patch.setattr(Flusher, "request", request_later)


def sends_markers_before_the_decision_is_committed(patch: pytest.MonkeyPatch) -> None:
    syncs_slowly(patch)
    end = TransactionShard.end

    def end_at_once(shard: TransactionShard, request: Any, **named: Any) -> Any:
        outcome = end(shard, request, **named)
        if outcome.when_committed is not None:
            asyncio.get_running_loop().call_soon(outcome.when_committed, ErrorCode.NONE)
        return CoordinatorResult(outcome.response, outcome.records)

    patch.setattr(TransactionShard, "end", end_at_once)


def sends_only_one_marker(patch: pytest.MonkeyPatch) -> None:
    send = MarkerSender.send

    def send_one(markers: MarkerSender, transactional_id: str, transaction: Transaction) -> None:
        send(markers, transactional_id, transaction._replace(partitions=transaction.partitions[:1]))

    patch.setattr(MarkerSender, "send", send_one)


def forgets_decisions_when_it_loads(patch: pytest.MonkeyPatch) -> None:
    loaded = TransactionShard.loaded

    def loaded_undecided(shard: TransactionShard) -> None:
        for transactional_id, transaction in list(shard.transactions.items()):
            if transaction.state in PREPARED:
                shard.transactions[transactional_id] = transaction._replace(state=State.PREPARE_ABORT)
        loaded(shard)

    patch.setattr(TransactionShard, "loaded", loaded_undecided)


def never_aborts_after_the_timeout(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionShard, "_set_deadline", lambda shard, transactional_id, delay_ms: None)


def aborts_prepared_transactions_after_the_timeout(patch: pytest.MonkeyPatch) -> None:
    init_producer_id = TransactionShard.init_producer_id

    def init_with_deadline(shard: TransactionShard, transactional_id: str, request: Any) -> Any:
        keeps = request.keep_prepared_txn
        request.enable_2pc = False
        outcome = init_producer_id(shard, transactional_id, request)
        request.keep_prepared_txn = keeps
        return outcome

    patch.setattr(TransactionShard, "init_producer_id", init_with_deadline)


# Offsets of groups


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


def returns_unstable_offsets(patch: pytest.MonkeyPatch) -> None:
    fetch = Offsets.fetch
    patch.setattr(
        Offsets,
        "fetch",
        lambda offsets, request, *, require_stable, version: fetch(
            offsets, request, require_stable=False, version=version
        ),
    )


def accepts_offsets_of_removed_members(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionalCommits, "_check", lambda commits, request, version: None)


@pytest.mark.parametrize(
    ("mutation", "first_seed"),
    [
        (returns_records_of_open_transactions, 0),
        (returns_records_when_the_newest_transaction_has_ended, 0),
        (lists_too_few_aborted_transactions, 0),
        (lists_aborted_transactions_too_early, 0),
        (accepts_records_of_older_epochs, 2),
        (accepts_markers_of_older_coordinators, 0),
        (does_not_verify_transactions, 0),
        (forgets_open_transactions_when_it_starts, 0),
        (does_not_check_producer_epochs, 0),
        (never_raises_the_producer_epoch, 0),
        (sends_markers_before_the_decision_is_committed, SEED_OF_EARLY_MARKERS),
        (sends_only_one_marker, 0),
        (forgets_decisions_when_it_loads, 1),
        (never_aborts_after_the_timeout, 0),
        (aborts_prepared_transactions_after_the_timeout, 0),
        (applies_offsets_at_once, 0),
        (drops_offsets_of_committed_transactions, 0),
        (returns_unstable_offsets, 23),
        (accepts_offsets_of_removed_members, 6),
    ],
)
def test_the_simulation_finds_this_bug_in_transactions(
    mutation: Mutation, first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`first_seed` found it once, which is fast; other seeds find it too."""
    expect_detection(
        mutation, monkeypatch, range(first_seed, first_seed + SEEDS_AT_MOST), has_transactions=True
    )


def test_slow_syncs_alone_break_no_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    syncs_slowly(monkeypatch)

    run_seed(SEED_OF_EARLY_MARKERS, has_transactions=True)
