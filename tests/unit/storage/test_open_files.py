"""Logs keep few files open, however many logs there are, and deleted logs none."""

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
from penstock.storage.directory_io import OpenFiles
from penstock.storage.settings import LogSettings

OPEN_FILES_MAX = 4
FEW = dataclasses.replace(QUIET, open_files_max=OPEN_FILES_MAX)


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    """A node collects garbage so rarely that a descriptor must not wait for it."""
    gc.disable()
    yield
    gc.enable()


async def test_idle_partitions_do_not_use_up_all_descriptors() -> None:
    place = Place(store_settings=FEW)

    for partition in range(20):
        place.create(partition=partition)

    assert len(place.disk.open_paths()) <= OPEN_FILES_MAX


async def test_recovered_partitions_do_not_use_up_all_descriptors() -> None:
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


async def test_a_new_partition_survives_a_power_cut_after_its_first_flush() -> None:
    place = Place()
    log = place.create()
    append(log, make_batch(1))
    await log.flush()

    log = await place.crash()

    assert log.end_offset == 1
    assert log.topic_id == place.create(partition=1).topic_id


async def test_retention_may_delete_a_recovered_segment_before_it_is_synced() -> None:
    place = Place(settings=LogSettings(segment_bytes=100, retention_ms=1))
    log = place.create()
    for _ in range(3):
        append(log, make_batch(1))
    place.disk.kill()
    log = await place.start()

    log.enforce_retention(place.clock.now_ms + 10_000, high_watermark=3)
    await log.flush()

    assert place.directory.is_online


def test_a_holder_that_released_its_files_is_not_kept_alive() -> None:
    open_files = OpenFiles(100)
    holder = Holder()
    gone = weakref.ref(holder)

    open_files.opened(holder)
    open_files.released(holder)
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

    assert len(log.reader.aborted_transactions(0, log.end_offset)) == 20

    assert not [path for path in place.disk.open_paths() if path.endswith(".txnindex")]
