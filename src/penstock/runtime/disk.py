"""The disk as the broker sees it: files that only grow, atomic small files, and directories.

A `File` is appended to and read by position; there is no shared cursor. A file is closed when its last reference
goes: a slice of a deleted segment that still waits in a socket's queue keeps the descriptor open, and so can never be
answered from another file that was given the same number. Errors are plain `OSError`; `storage` decides what a
failing disk means.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview

IOV_MAX = 1024  # Linux refuses longer vectors
FALLOC_FL_KEEP_SIZE = 1

CAN_PROBE = hasattr(os, "RWF_NOWAIT")  # Linux; elsewhere everything counts as cached
PROBE_BYTES = 1 << 20  # between two samples: the default fetch is no larger, and is judged by its ends
PAGE_BYTES = 4096
TAIL_BYTES = 64 * 1024  # so little at the end was written just now if we wrote it; probing costs 1.7 us

_probe = bytearray(1)


class File(Protocol):
    path: str

    def fileno(self) -> int:
        """A descriptor for sendfile, or -1 where the file is not one of the operating system's."""
        ...

    def size(self) -> int: ...

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all of `buffers` at the end and return the bytes written; a short write is finished or raises."""
        ...

    def read(self, *, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`; shorter only at the end of the file."""
        ...

    def read_cached(self, *, position: int, size: int) -> bytes | bytearray | None:
        """As `read`, but None if any of it would have to come from the disk. Never waits, where that can be known."""
        ...

    def is_cached(self, *, position: int, size: int) -> bool:
        """Whether these bytes are in memory, judged by samples. True where that cannot be known."""
        ...

    def truncate(self, size: int) -> None: ...

    def reserve(self, size: int) -> None:
        """Set room aside for the file to grow to `size`. A hint: where that can not be done, nothing happens."""
        ...

    def sync(self) -> None:
        """Make everything appended so far survive a power cut. Blocks: run it in a worker."""
        ...

    def close(self) -> None:
        """Close now. Only for files of which no slice can be outstanding; others close with their last reference."""
        ...


class DirectoryLock(Protocol):
    def release(self) -> None: ...


class Disk(Protocol):
    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and appending; FileNotFoundError unless it exists or `create`."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted, so that no order depends on the file system."""
        ...

    def is_directory(self, path: str) -> bool: ...

    def make_directory(self, path: str) -> None:
        """Create it and its parents; fine if it exists."""
        ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals in this directory survive a power cut."""
        ...

    def read_file(self, path: str) -> bytes: ...

    def write_file(self, path: str, data: bytes) -> None:
        """Replace a small file atomically and durably: temporary, sync, rename, sync the directory."""
        ...

    def modified_ms(self, path: str) -> int: ...

    def space(self, path: str) -> tuple[int, int]:
        """Total and usable bytes of the volume that holds `path`."""
        ...

    def lock(self, path: str) -> DirectoryLock:
        """Take the file at `path` as an exclusive lock, or raise BlockingIOError."""
        ...


class RealFile:
    """A descriptor and its length; the length is kept here because a stat per append would cost a system call."""

    __slots__ = ("_fd", "_opened_size", "_size", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd
        self._size = self._opened_size = os.fstat(fd).st_size

    def __del__(self) -> None:
        self.close()

    def fileno(self) -> int:
        return self._fd

    def size(self) -> int:
        return self._size

    def append(self, buffers: Sequence[Buffer]) -> int:
        try:
            if len(buffers) == 1:
                buffer = buffers[0]
                wanted = len(buffer)
                written = os.pwrite(self._fd, buffer, self._size)
            else:
                wanted = sum(map(len, buffers))
                written = os.pwritev(self._fd, buffers[:IOV_MAX], self._size)
            if written < wanted:
                written += self._append_rest(b"".join(buffers), written)
        except OSError as error:
            raise self._named(error)  # noqa: B904, it is the same error
        self._size += written
        return written

    def _append_rest(self, data: bytes, done: int) -> int:
        """A signal or a nearly full disk cut the write short: finish it, or let the error of the next try say why."""
        view = memoryview(data)
        start = done
        while done < len(view):
            done += os.pwrite(self._fd, view[done:], self._size + done)
        return done - start

    def read(self, *, position: int, size: int) -> bytes:
        try:
            data = os.pread(self._fd, size, position)
            while len(data) < size:
                more = os.pread(self._fd, size - len(data), position + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise self._named(error)  # noqa: B904, it is the same error
        return data

    def read_cached(self, *, position: int, size: int) -> bytes | bytearray | None:
        if not CAN_PROBE:
            return self.read(position=position, size=size)
        buffer = bytearray(size)
        try:
            count = os.preadv(self._fd, (buffer,), position, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError:
            return self.read(position=position, size=size)  # not supported here, or an error that comes again
        if count < size:
            if position + count < self._size:
                return None
            del buffer[count:]
        return buffer

    def is_cached(self, *, position: int, size: int) -> bool:
        last = position + size - 1
        if position >= self._opened_size and position >= self._size - TAIL_BYTES:
            return True
        while self._is_page_cached(position):
            if last - position < PAGE_BYTES:
                return True
            position = min(position + PROBE_BYTES, last)
        return False

    def _is_page_cached(self, position: int) -> bool:
        if not CAN_PROBE:
            return True
        try:
            os.preadv(self._fd, (_probe,), position, os.RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True  # a file system that cannot tell, or an error that the reader will meet
        return True

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            raise self._named(error)  # noqa: B904, it is the same error
        self._size = size

    def reserve(self, size: int) -> None:
        import ctypes  # here, because few topics want this and every node would pay for it at start

        # Python's own os.posix_fallocate changes the size of the file.
        libc = ctypes.CDLL(None, use_errno=True)
        start, length = ctypes.c_int64(0), ctypes.c_int64(size)
        refused = libc.fallocate(self._fd, FALLOC_FL_KEEP_SIZE, start, length) != 0
        if refused and ctypes.get_errno() == errno.ENOSPC:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)

    def sync(self) -> None:
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise self._named(error)  # noqa: B904, it is the same error

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _named(self, error: OSError) -> OSError:
        """The same error with the name of the file, which calls on descriptors leave out."""
        error.filename = self.path
        return error


class RealDirectoryLock:
    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class RealDisk:
    def open(self, path: str, *, create: bool = False) -> RealFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return RealFile(path, os.open(path, flags, 0o644))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path)

    def sync_directory(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def read_file(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def write_file(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        self.sync_directory(os.path.dirname(path) or ".")

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def space(self, path: str) -> tuple[int, int]:
        usage = shutil.disk_usage(path)
        return usage.total, usage.free

    def lock(self, path: str) -> RealDirectoryLock:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        return RealDirectoryLock(fd)
