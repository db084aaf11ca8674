"""Reads on the event loop that never wait for the disk.

A read of a page that is not in memory blocks the event loop, and all requests with it. Code on the event loop
therefore reads through `CachedFile`, which raises `ColdPages` for such pages. The caller loads them in a worker
(`when_loaded`, or a `PageLoader` if a callback continues) and starts again. So a function that may raise `ColdPages`
must not have changed anything before it does.

If memory is short, pages may be evicted before the caller starts again. The same pages are loaded `LOADS_MAX` times
for one call; after that its reads may wait for the disk, so every call ends.

`waiting_for_disk` is for the few callers that cannot yield, and whose pages are almost always in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import ParamSpec, Protocol, TypeVar

from penstock.runtime.disk import File
from penstock.runtime.network import FileSlice, SliceOwner
from penstock.runtime.workers import Lane, Workers

P = ParamSpec("P")
T = TypeVar("T")

READ_BYTES = 1 << 20  # a worker holds no more than this of a cold slice in memory
LOOKUP_BYTES = (
    128 * 1024
)  # minimum loaded for a lookup: Linux reads as much ahead anyway, and it is sent next
LOADS_MAX = 3  # of the same pages for one call

_may_block = ContextVar("may_block", default=False)
"""Whether reads of the current call may wait for the disk, see `blocking_reads`."""


class Readable(Protocol):
    """The part of a file that lookups use."""

    path: str

    def size(self) -> int: ...

    def read(self, *, position: int, size: int) -> bytes | bytearray: ...


class ColdPages(Exception):
    """The event loop needs bytes of a log that are not in memory. Load `piece` in a worker, then try again."""

    def __init__(self, piece: FileSlice) -> None:
        super().__init__(f"{piece.file.path} is not in the page cache at {piece.position}")
        self.piece = piece


class CachedFile:
    """A file that is only read from memory."""

    __slots__ = ("_file", "_is_index", "_owner", "_read_cached", "path")

    def __init__(self, file: File, owner: SliceOwner, *, is_index: bool = False) -> None:
        """With `is_index` all pages are loaded at once, because a binary search would miss again and again."""
        self.path = file.path
        self._file = file
        self._read_cached = file.read_cached  # looked up once: bench/micro/storage.py, "read anywhere"
        self._owner = owner
        self._is_index = is_index

    def size(self) -> int:
        return self._file.size()

    def read(self, *, position: int, size: int) -> bytes | bytearray:
        data = self._read_cached(position=position, size=size)
        if data is None:
            return _read_missing(self._file, position, size, self._piece(position, size))
        return data

    def _piece(self, position: int, size: int) -> FileSlice:
        if self._is_index:
            return FileSlice(self._file, 0, self._file.size(), self._owner)
        return FileSlice(self._file, position, max(size, LOOKUP_BYTES), self._owner)


def read_cached(piece: FileSlice) -> bytes | bytearray:
    """The bytes of a slice, or ColdPages."""
    data = piece.file.read_cached(position=piece.position, size=piece.size)
    if data is None:
        return _read_missing(piece.file, piece.position, piece.size, piece)
    return data


def _read_missing(file: File, position: int, size: int, piece: FileSlice) -> bytes:
    if not _may_block.get():
        raise ColdPages(piece)
    return file.read(position=position, size=size)


@contextmanager
def blocking_reads() -> Iterator[None]:
    """Let reads inside wait for the disk, blocking the event loop."""
    token = _may_block.set(True)
    try:
        yield
    finally:
        _may_block.reset(token)


def load(pieces: Sequence[FileSlice]) -> list[tuple[FileSlice, OSError]]:
    """Read `pieces` into the page cache; returns those that could not be read. Blocking: run it in a worker."""
    failures = []
    for piece in pieces:
        position, end = piece.position, piece.position + piece.size
        while position < end:
            try:
                data = piece.file.read(position=position, size=min(READ_BYTES, end - position))
            except OSError as error:
                failures.append((piece, error))
                break
            if not data:
                break  # the end of the file
            position += len(data)
    return failures


def take_offline(failures: Sequence[tuple[FileSlice, OSError]]) -> None:
    """Take the directories of unreadable files offline. Only on the event loop."""
    for piece, error in failures:
        piece.failed(error)


class PageLoader:
    """Loads the pages that one call needs, and counts the loads, so that the call ends even if pages are evicted
    again."""

    __slots__ = ("_loads", "_may_block", "_workers")

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._loads: dict[tuple[str, int], int] = {}
        self._may_block = False

    def run(self, call: Callable[[], T]) -> T:
        """The result of `call`. Raises ColdPages, unless the pages were already loaded `LOADS_MAX` times."""
        if not self._may_block:
            return call()
        with blocking_reads():
            return call()

    def load(self, pieces: Sequence[FileSlice], then: Callable[[BaseException | None], None]) -> None:
        """Load `pieces` in a worker, then call `then` on the event loop with None or the error.

        After an OSError the directory is offline; the call can be repeated and is then refused. CancelledError means
        that the node stops.
        """

        def loaded(loading: asyncio.Future[list[tuple[FileSlice, OSError]]]) -> None:
            try:
                failures = loading.result()
                take_offline(failures)
            except (Exception, asyncio.CancelledError) as error:
                then(error)
            else:
                then(failures[0][1] if failures else None)

        self._start(pieces).add_done_callback(loaded)

    async def wait_for(self, piece: FileSlice) -> None:
        """As `load`, for a caller that can await."""
        take_offline(await self._start([piece]))

    def _start(self, pieces: Sequence[FileSlice]) -> asyncio.Future[list[tuple[FileSlice, OSError]]]:
        for piece in pieces:
            place = (piece.file.path, piece.position)
            self._loads[place] = self._loads.get(place, 0) + 1
            if self._loads[place] >= LOADS_MAX:
                self._may_block = True
        return self._workers.run(partial(load, pieces), lane=Lane.READ)


async def when_loaded(call: Callable[[], T], workers: Workers) -> T:
    """The result of `call`, which runs on the event loop, and again whenever the pages that it needs were loaded.

    Each round loads pages that the next one needs, so the number of rounds is bounded.
    """
    loader = PageLoader(workers)
    while True:
        try:
            return loader.run(call)
        except ColdPages as cold:
            piece = cold.piece
        await loader.wait_for(piece)


def waiting_for_disk(call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """The result of `call`. Waits for the disk if it must, blocking the event loop."""
    try:
        return call(*arguments, **named)
    except ColdPages:
        pass
    with blocking_reads():
        return call(*arguments, **named)
