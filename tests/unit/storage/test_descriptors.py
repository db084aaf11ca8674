"""How many files logs hold open: few, however many logs there are, and none of logs that are gone."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from collections.abc import Iterator

import pytest

from harness.storage import (
    QUIET,
    Place,
    append,
    append_in_transaction,
    append_marker,
    make_batch,
    settle,
)
from penstock.storage.settings import LogSettings
from penstock.storage.volume import Descriptors

OPEN_FILES_MAX = 4
FEW = dataclasses.replace(QUIET, open_files_max=OPEN_FILES_MAX)


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    """A node collects garbage so rarely that a descriptor must not wait for it."""
    gc.disable()
    yield
    gc.enable()


async def test_partitions_that_nobody_writes_to_do_not_use_up_all_descriptors() -> None:
    place = Place(store_settings=FEW)

    for partition in range(20):
        place.create(partition=partition)

    assert len(place.disk.open_paths()) <= OPEN_FILES_MAX


async def test_partitions_that_come_back_after_a_crash_do_not_use_up_all_descriptors() -> None:
    place = Place(store_settings=FEW)
    for partition in range(20):
        append(place.create(partition=partition), make_batch(1))

    await place.kill()

    assert len(place.disk.open_paths()) <= OPEN_FILES_MAX


async def test_a_deleted_partition_leaves_no_file_open() -> None:
    place = Place(settings=LogSettings(file_delete_delay_ms=0))
    log = place.create()
    append(log, make_batch(1))

    place.directory.delete(log)
    await settle()

    assert place.disk.open_paths() == []


async def test_a_new_partition_is_whole_after_a_power_cut_that_follows_its_first_flush() -> None:
    place = Place()
    log = place.create()
    append(log, make_batch(1))
    await log.flush()

    log = await place.crash()

    assert log.end_offset == 1
    assert log.topic_id == place.create(partition=1).topic_id


async def test_a_recovered_segment_that_retention_takes_before_it_was_synced_is_not_missed() -> None:
    place = Place(settings=LogSettings(segment_bytes=100, retention_ms=1))
    log = place.create()
    for _ in range(3):
        append(log, make_batch(1))
    place.disk.kill()
    log = await place.start()

    log.enforce_retention(place.clock.now_ms + 10_000, high_watermark=3)
    await log.flush()

    assert place.directory.is_online


def test_who_has_let_go_of_its_files_is_forgotten() -> None:
    descriptors = Descriptors(100)
    holder = Holder()
    gone = weakref.ref(holder)

    descriptors.opened(holder)
    descriptors.released(holder)
    del holder

    assert gone() is None


class Holder:
    def release_files(self) -> None:
        pass


async def test_searches_for_aborted_transactions_leave_no_file_open() -> None:
    place = Place(settings=LogSettings(segment_bytes=200, file_delete_delay_ms=0), store_settings=FEW)
    log = place.create()
    for sequence in range(20):
        append_in_transaction(log, 7, sequence)
        append_marker(log, 7, is_commit=False)

    await log.flush()

    assert len(log.aborted_transactions(0, log.end_offset)) == 20

    assert not [path for path in place.disk.open_paths() if path.endswith(".txnindex")]
