"""Reads on the event loop: only what the page cache holds.

A read of a page that is not in memory waits for the disk, and while the event loop waits, nobody is served. Code that
runs on the loop therefore reads through `CachedFile`, which raises `ColdPages` for pages that are not in memory. The
caller loads them in a worker (`when_loaded`) and starts over; the second time the pages are found. So a function
that may raise `ColdPages` must not have changed anything before it does.

`waiting_for_disk` is for the few callers that cannot give way to others, and whose pages are almost always in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from penstock.runtime.disk import File
from penstock.runtime.network import FileSlice, SliceOwner
from penstock.runtime.workers import Lane, Workers

T = TypeVar("T")

READ_BYTES = 1 << 20  # a worker holds no more than this of a cold slice in memory
LOOKUP_BYTES = (
    128 * 1024
)  # loaded for a lookup at least: what Linux reads ahead anyway, and what is sent next


class Readable(Protocol):
    """What a lookup needs of a file."""

    path: str

    def size(self) -> int: ...

    def read(self, *, position: int, size: int) -> bytes | bytearray: ...


class ColdPages(Exception):
    """The event loop needs bytes of a log that only the disk has. Load `piece` in a worker, then try again."""

    def __init__(self, piece: FileSlice) -> None:
        super().__init__(f"{piece.file.path} is not in the page cache at {piece.position}")
        self.piece = piece


class CachedFile:
    """A file as the event loop may read it."""

    __slots__ = ("_file", "_is_index", "_owner", "_read_cached", "path")

    def __init__(self, file: File, owner: SliceOwner, *, is_index: bool = False) -> None:
        """Of an index all pages are loaded at once: a search jumps through them, and would miss again and again."""
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
            raise ColdPages(self._piece(position, size))
        return data

    def _piece(self, position: int, size: int) -> FileSlice:
        if self._is_index:
            return FileSlice(self._file, 0, self._file.size(), self._owner)
        return FileSlice(self._file, position, max(size, LOOKUP_BYTES), self._owner)


def read_cached(piece: FileSlice) -> bytes | bytearray:
    """The bytes of a slice, or ColdPages."""
    data = piece.file.read_cached(position=piece.position, size=piece.size)
    if data is None:
        raise ColdPages(piece)
    return data


def load(pieces: Sequence[FileSlice]) -> list[tuple[FileSlice, OSError]]:
    """Read `pieces` into the page cache; returns those that could not be read. Blocks: run it in a worker."""
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


def tell(failures: Sequence[tuple[FileSlice, OSError]]) -> None:
    """Take the directories offline whose files could not be read. Only on the event loop."""
    for piece, error in failures:
        piece.failed(error)


async def when_loaded(call: Callable[[], T], workers: Workers) -> T:
    """The result of `call`, which runs on the event loop, and again whenever pages that it needs have been loaded.

    Each round loads pages that the next one needs, and a call needs only so many.
    """
    while True:
        try:
            return call()
        except ColdPages as cold:
            piece = cold.piece
        tell(await workers.run(lambda: load([piece]), lane=Lane.READ))  # noqa: B023


def waiting_for_disk(call: Callable[[], T]) -> T:
    """The result of `call`. Waits for the disk if it must, and the event loop with it."""
    while True:
        try:
            return call()
        except ColdPages as cold:
            tell(load([cold.piece]))
