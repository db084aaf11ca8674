"""Reads on the event loop end, even if pages are evicted as soon as they are loaded."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.runtime.workers import Lane
from penstock.storage.pages import (
    LOADS_MAX,
    CachedFile,
    ColdPages,
    PageLoader,
    blocking_reads,
    waiting_for_disk,
    when_loaded,
)

DATA = bytes(range(256)) * 4


class EvictedFile:
    """A file that is never in memory when the event loop reads it."""

    path = "/data/t-0/00000000000000000000.log"

    def __init__(self) -> None:
        self.blocking_count = 0
        self.is_working = False

    def size(self) -> int:
        return len(DATA)

    def read_cached(self, *, position: int, size: int) -> None:
        return None

    def read(self, *, position: int, size: int) -> bytes:
        self.blocking_count += not self.is_working
        return DATA[position : position + size]


class InlineWorkers:
    def __init__(self, file: EvictedFile) -> None:
        self._file = file
        self.run_count = 0

    def run(self, work: Any, *, lane: Lane = Lane.BACKGROUND) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.run_count += 1
        self._file.is_working = True
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)
        self._file.is_working = False
        return future

    def close(self) -> None: ...


def evicted() -> tuple[EvictedFile, CachedFile, InlineWorkers]:
    file: Any = EvictedFile()
    owner: Any = None
    return file, CachedFile(file, owner), InlineWorkers(file)


async def test_a_call_whose_pages_are_evicted_again_and_again_ends() -> None:
    file, cached, workers = evicted()

    assert await when_loaded(lambda: cached.read(position=8, size=4), workers) == DATA[8:12]

    assert workers.run_count == LOADS_MAX
    assert file.blocking_count == 1


async def test_a_call_that_needs_many_pages_does_not_block_for_them() -> None:
    """Only pages that are loaded again count: a search through many segments loads many new ones."""
    file, cached, workers = evicted()
    loader, positions = PageLoader(workers), iter(range(0, 1000, 100))

    def search() -> None:
        for position in positions:
            cached.read(position=position, size=1)

    for _ in range(10):
        with pytest.raises(ColdPages) as cold:
            loader.run(search)
        await loader.wait_for(cold.value.piece)
    assert loader.run(search) is None
    assert file.blocking_count == 0


def test_a_caller_that_cannot_yield_reads_evicted_pages_once() -> None:
    file, cached, _ = evicted()

    assert waiting_for_disk(lambda: cached.read(position=8, size=4)) == DATA[8:12]

    assert file.blocking_count == 1


def test_reads_may_block_only_inside_blocking_reads() -> None:
    _, cached, _ = evicted()
    with blocking_reads():
        cached.read(position=0, size=1)

    with pytest.raises(ColdPages):
        cached.read(position=0, size=1)


@pytest.mark.parametrize("failure", [ValueError("a bug"), asyncio.CancelledError()])
async def test_a_load_that_fails_is_passed_to_the_callback(failure: BaseException) -> None:
    _, cached, workers = evicted()
    with pytest.raises(ColdPages) as cold:
        cached.read(position=0, size=1)
    loading: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    workers.run = lambda *_, **__: loading  # type: ignore[method-assign]
    reported: list[BaseException | None] = []

    PageLoader(workers).load([cold.value.piece], reported.append)
    if isinstance(failure, asyncio.CancelledError):
        loading.cancel()
    else:
        loading.set_exception(failure)
    await asyncio.sleep(0)

    assert [type(each) for each in reported] == [type(failure)]
