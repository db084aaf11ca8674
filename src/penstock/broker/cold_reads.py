"""Slices that are not in the page cache: read them in a worker first, so that sending them does not stop the loop.

`sendfile` of a page that is only on disk waits for the disk, and with it waits everybody whom this node
serves. A reader that is far behind is the usual cause, and there is nothing wrong with it: it only must not
cost the others their latency.
"""

from __future__ import annotations

import os

from penstock.runtime.network import FileSlice

READ_BYTES = 1 << 20  # a worker holds no more than this of a cold slice in memory
TAIL_BYTES = 64 * 1024  # so little at the end of a file was written just now; probing costs 1.7 us
PAGE_BYTES = 4096

CAN_PROBE = hasattr(os, "RWF_NOWAIT")  # Linux; elsewhere everything counts as cached

_probe = bytearray(1)


def is_cold(piece: FileSlice) -> bool:
    """Whether sending `piece` would have to wait for a disk; False where that cannot be known."""
    file, position, size = piece.file, piece.position, piece.size
    if size <= TAIL_BYTES and position + size == file.size():
        return False
    descriptor = file.fileno()
    if descriptor < 0 or not CAN_PROBE:
        return False
    return not _is_cached(descriptor, position) or (
        size > PAGE_BYTES and not _is_cached(descriptor, position + size - 1)
    )


def warm(pieces: list[FileSlice]) -> None:
    """Read `pieces`, so that the page cache has them. Blocks: run it in a worker."""
    for piece in pieces:
        position, end = piece.position, piece.position + piece.size
        while position < end:
            try:
                data = piece.file.read(position=position, size=min(READ_BYTES, end - position))
            except OSError:
                return  # whoever sends the slice meets the error again, and knows whom to tell
            if not data:
                return  # cut off meanwhile; whoever sends it will notice
            position += len(data)


def _is_cached(descriptor: int, position: int) -> bool:
    try:
        os.preadv(descriptor, (_probe,), position, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system that cannot tell, or a real error that the one who sends will meet
    return True
