"""Faults that are put into the node on purpose, and have to be found: otherwise a seed that passes means nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.mutations import Mutation, find_out
from penstock.controller.controller import Controller
from penstock.node.metadata_log import StoredQuorumLog
from penstock.node.node import Node
from penstock.replication.partition import Partition
from penstock.storage import recovery
from penstock.storage.checkpoints import OffsetCheckpoint
from penstock.storage.flushing import SyncWork
from penstock.storage.loading import _Loader
from penstock.storage.log import Log
from penstock.storage.producer_state import ProducerState
from penstock.storage.store import LogStore

SEEDS_AT_MOST = (
    150  # most faults show in a few; those that take a power cut at the right moment in about thirty
)


def acknowledges_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "durable_end_offset", property(lambda log: log.end_offset))


def does_not_sync_names(patch: pytest.MonkeyPatch) -> None:
    run = SyncWork.run

    def run_without(work: SyncWork) -> None:
        work.directories.clear()
        run(work)

    patch.setattr(SyncWork, "run", run_without)


def does_not_check_sequences(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerState, "check", lambda state, headers, guard=None: None)


def forgets_producers_when_it_starts(patch: pytest.MonkeyPatch) -> None:
    load = _Loader.load

    def load_without(loader: _Loader, **arguments: Any) -> Any:
        loaded = load(loader, **arguments)
        loaded.producers = ProducerState()
        return loaded

    patch.setattr(_Loader, "load", load_without)


def believes_any_tail(patch: pytest.MonkeyPatch) -> None:
    """Recovery that takes a batch's header for the whole of it."""
    patch.setattr(recovery.kernel, "check_batch", recovery.kernel.read_header)


def shows_records_before_they_are_safe(patch: pytest.MonkeyPatch) -> None:
    def read_to_the_end(
        partition: Partition,
        offset: int,
        *,
        for_replica: bool = False,
        read_committed: bool = False,
        **limits: Any,
    ) -> Any:
        log = partition.log
        return log.read(min(offset, log.end_offset), end_offset=log.end_offset, **limits)

    patch.setattr(Partition, "read", read_to_the_end)


def answers_before_the_metadata_is_safe(patch: pytest.MonkeyPatch) -> None:
    async def return_at_once(log: StoredQuorumLog) -> None:
        pass

    patch.setattr(StoredQuorumLog, "sync", return_at_once)


def keeps_leader_epochs_after_a_crash(patch: pytest.MonkeyPatch) -> None:
    join = Node._join
    patch.setattr(Node, "_join", lambda node, **_: join(node, keeps_epochs=True))


def forgets_what_was_deleted(patch: pytest.MonkeyPatch) -> None:
    prepare = OffsetCheckpoint.prepare

    def prepare_unless_start_offsets(checkpoint: OffsetCheckpoint, offsets: Any) -> Any:
        return None if "start" in checkpoint.path else prepare(checkpoint, offsets)

    patch.setattr(OffsetCheckpoint, "prepare", prepare_unless_start_offsets)


def believes_indexes_that_were_never_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "scan_offset", property(lambda log: log.recovery_point))


def forgets_a_crash_when_it_can_not_start(patch: pytest.MonkeyPatch) -> None:
    close = LogStore.close
    patch.setattr(LogStore, "close", lambda store, **_: close(store))


def gives_producer_ids_twice(patch: pytest.MonkeyPatch) -> None:
    async def allocate(controller: Controller, broker_id: int) -> tuple[int, int]:
        await asyncio.sleep(0)
        return 0, 1000

    patch.setattr(Controller, "allocate_producer_ids", allocate)


@pytest.mark.parametrize(
    "mutation",
    [
        acknowledges_before_the_sync,
        does_not_sync_names,
        does_not_check_sequences,
        forgets_producers_when_it_starts,
        believes_any_tail,
        shows_records_before_they_are_safe,
        answers_before_the_metadata_is_safe,
        keeps_leader_epochs_after_a_crash,
        forgets_what_was_deleted,
        believes_indexes_that_were_never_synced,
        forgets_a_crash_when_it_can_not_start,
        gives_producer_ids_twice,
    ],
)
def test_a_node_with_this_fault_is_found_out(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    find_out(mutation, monkeypatch, range(SEEDS_AT_MOST), has_groups=False, has_transactions=False)
