"""Deleting a log while its files are still in use."""

from __future__ import annotations

import asyncio

import pytest

from harness.storage import HeldWorkers, Place, append, make_batch, settle
from penstock.protocol.types import Uuid
from penstock.storage.errors import LogClosed
from penstock.storage.settings import LogSettings

OTHER_ID = Uuid(bytes(range(1, 17)))


def held_place() -> tuple[Place, HeldWorkers]:
    workers = HeldWorkers()
    return Place(settings=LogSettings(flush_messages=1), workers=workers), workers


async def test_deleting_a_log_that_is_being_flushed_does_not_take_its_directory_offline() -> None:
    place, workers = held_place()
    log = place.create()
    append(log, make_batch(1))
    append(log, make_batch(1))

    place.directory.delete(log)
    while workers.held:
        await workers.release()

    assert place.directory.is_online


async def test_a_log_that_is_deleted_while_it_is_flushed_is_not_flushed_again() -> None:
    place, workers = held_place()
    log = place.create()
    append(log, make_batch(1))
    append(log, make_batch(1))

    place.directory.delete(log)
    place.create()
    await workers.release()

    assert not workers.held


async def test_the_flush_of_a_deleted_log_writes_nothing_into_the_log_that_took_its_name() -> None:
    place, workers = held_place()
    former = place.create()
    append(former, make_batch(1), leader_epoch=7)

    place.directory.delete(former)
    log = place.directory.create("orders", 0, OTHER_ID, place.settings)
    append(log, make_batch(1), leader_epoch=0)
    flush_of_former, flush = workers.held
    workers.held = [flush, flush_of_former]
    await workers.release()

    assert place.disk.read_file(place.path("leader-epoch-checkpoint")) == b"0\n1\n0 0\n"


async def test_a_flush_fails_when_its_log_is_deleted() -> None:
    place, _ = held_place()
    log = place.create()
    append(log, make_batch(1))
    flushed = asyncio.ensure_future(log.flush())
    await settle()

    place.directory.delete(log)

    with pytest.raises(LogClosed):
        await asyncio.wait_for(flushed, 1)
