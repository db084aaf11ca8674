"""Lanes of threads: work of one kind does not wait for work of another."""

from __future__ import annotations

import asyncio
import threading

import pytest

from penstock.runtime.workers import Lane, ThreadWorkers


@pytest.mark.parametrize("busy", [Lane.READ, Lane.BACKGROUND])
async def test_an_fsync_does_not_wait_for_slow_reads_or_background_work(busy: Lane) -> None:
    workers = ThreadWorkers(2, read_threads=2)
    release = threading.Event()
    blocked = [workers.run(release.wait, lane=busy) for _ in range(10)]

    assert await workers.run(lambda: "synced", lane=Lane.SYNC) == "synced"

    assert not any(future.done() for future in blocked)
    release.set()
    await asyncio.gather(*blocked)
    workers.close()


async def test_a_read_does_not_wait_for_slow_fsyncs() -> None:
    workers = ThreadWorkers(1)
    release = threading.Event()
    blocked = workers.run(release.wait, lane=Lane.SYNC)

    assert await workers.run(lambda: "read", lane=Lane.READ) == "read"

    assert not blocked.done()
    release.set()
    await blocked
    workers.close()
