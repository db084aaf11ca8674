"""Bugs put into the node on purpose. The simulation must find them: see `harness.mutations`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.mutations import Mutation, expect_detection
from penstock.controller import registration
from penstock.controller.controller import Controller
from penstock.node.metadata_log import StoredQuorumLog
from penstock.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from penstock.replication.partition import Partition
from penstock.storage import recovery
from penstock.storage.checkpoints import OffsetCheckpoint
from penstock.storage.durability import Durability
from penstock.storage.flushing import SyncTask
from penstock.storage.loading import _Loader
from penstock.storage.producer_state import ProducerState

SEEDS_AT_MOST = (
    150  # most bugs show in a few seeds, those that need a power cut at the right moment in about thirty
)


def acknowledges_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    appended = Durability.appended

    def appended_and_durable(durability: Durability) -> None:
        appended(durability)
        durability.end_offset = durability._log.end_offset

    patch.setattr(Durability, "appended", appended_and_durable)


def does_not_sync_directories(patch: pytest.MonkeyPatch) -> None:
    run = SyncTask.run

    def run_without(work: SyncTask) -> None:
        work.directories.clear()
        run(work)

    patch.setattr(SyncTask, "run", run_without)


def does_not_check_sequences(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerState, "check", lambda state, headers, guard=None: None)


def forgets_producers_when_it_starts(patch: pytest.MonkeyPatch) -> None:
    load = _Loader.load

    def load_without(loader: _Loader, **arguments: Any) -> Any:
        loaded = load(loader, **arguments)
        loaded.producers = ProducerState()
        return loaded

    patch.setattr(_Loader, "load", load_without)


def checks_only_headers_in_recovery(patch: pytest.MonkeyPatch) -> None:
    """Recovery checks the header of a batch only."""
    patch.setattr(recovery.kernel, "check_batch", recovery.kernel.read_header)


def returns_records_before_they_are_synced(patch: pytest.MonkeyPatch) -> None:
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


def answers_before_the_metadata_is_synced(patch: pytest.MonkeyPatch) -> None:
    async def return_at_once(log: StoredQuorumLog) -> None:
        pass

    patch.setattr(StoredQuorumLog, "sync", return_at_once)


def keeps_leader_epochs_after_a_crash(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(registration, "_changes_after_restart", lambda *_: [])


def forgets_log_start_offsets(patch: pytest.MonkeyPatch) -> None:
    prepare = OffsetCheckpoint.prepare

    def prepare_unless_start_offsets(checkpoint: OffsetCheckpoint, offsets: Any) -> Any:
        return None if "start" in checkpoint.path else prepare(checkpoint, offsets)

    patch.setattr(OffsetCheckpoint, "prepare", prepare_unless_start_offsets)


def trusts_unsynced_indexes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Durability, "scan_offset", property(lambda durability: durability.recovery_point))


def assigns_producer_ids_twice(patch: pytest.MonkeyPatch) -> None:
    async def allocate(controller: Controller, request: Any) -> AllocateProducerIdsResponse:
        await asyncio.sleep(0)
        return AllocateProducerIdsResponse(producer_id_start=0, producer_id_len=1000)

    patch.setattr(Controller, "allocate_producer_ids", allocate)


@pytest.mark.parametrize(
    "mutation",
    [
        acknowledges_before_the_sync,
        does_not_sync_directories,
        does_not_check_sequences,
        forgets_producers_when_it_starts,
        checks_only_headers_in_recovery,
        returns_records_before_they_are_synced,
        answers_before_the_metadata_is_synced,
        keeps_leader_epochs_after_a_crash,
        forgets_log_start_offsets,
        trusts_unsynced_indexes,
        assigns_producer_ids_twice,
    ],
)
def test_the_simulation_finds_this_bug_of_the_node(
    mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_detection(mutation, monkeypatch, range(SEEDS_AT_MOST), has_groups=False, has_transactions=False)
