"""A checkpoint whose write was cancelled, as a shutdown cancels all background work."""

from __future__ import annotations

import asyncio

from harness.storage import HeldWorkers, Place, append, make_batch, settle
from penstock.storage.checkpoints import OffsetCheckpoint
from simulator.disk import SimulatedDisk

PATH = "/data/log-start-offset-checkpoint"


async def test_deleted_records_stay_deleted_after_a_shutdown_that_interrupts_a_checkpoint() -> None:
    workers = HeldWorkers()
    place = Place(workers=workers)
    log = place.create()
    append(log, make_batch(5))
    log.advance_start(3)
    checkpoint = asyncio.ensure_future(place.directory.checkpoint_start_offsets())
    await settle()

    checkpoint.cancel()
    await settle()
    workers.held.clear()  # cancelling a future removes its work from the queue
    closing = asyncio.ensure_future(place.directory.close())
    while not closing.done():
        await settle()
        await workers.release()
    starting = asyncio.ensure_future(place.start())
    while not starting.done():
        await settle()
        await workers.release()

    assert starting.result().start_offset == 3


def test_a_checkpoint_that_was_prepared_and_never_written_is_prepared_again() -> None:
    disk = SimulatedDisk()
    disk.make_directory("/data")
    checkpoint = OffsetCheckpoint(disk, PATH)

    assert checkpoint.prepare({("t", 0): 3}) is not None
    again = checkpoint.prepare({("t", 0): 3})
    assert again is not None
    again()

    assert disk.read_file(PATH) == b"0\n1\nt 0 3\n"
    assert checkpoint.prepare({("t", 0): 3}) is None
