"""The disk interface: append-only files, small files that are replaced atomically, and directories.

A `File` is appended to and read by position, without a shared cursor. A file is closed with its last reference: a slice
of a deleted segment in a socket's queue keeps the descriptor open, so it can never read another file that reuses the
descriptor number. Errors are plain `OSError`; `storage` decides how to handle a failing disk.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview

IOV_MAX = 1024  # Linux rejects longer vectors
FALLOC_FL_KEEP_SIZE = 1

CAN_PROBE = hasattr(os, "RWF_NOWAIT")  # Linux; elsewhere everything counts as cached
PROBE_BYTES = 1 << 20  # between two samples: a default fetch is not larger, so only its ends are sampled
PAGE_BYTES = 4096
TAIL_BYTES = 64 * 1024  # the tail that we wrote is cached, and probing costs 1.7 us

_probe = bytearray(1)


class File(Protocol):
    path: str

    def fileno(self) -> int:
        """A descriptor for sendfile, or -1 if the file is not a file of the operating system."""
        ...

    def size(self) -> int: ...

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Append all of `buffers` and return the bytes written. A short write is completed or raises."""
        ...

    def read(self, *, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`; shorter only at the end of the file."""
        ...

    def read_cached(self, *, position: int, size: int) -> bytes | bytearray | None:
        """Like `read`, but None if part of it is not in the page cache. Does not block, if the system supports it."""
        ...

    def is_cached(self, *, position: int, size: int) -> bool:
        """Whether these bytes are in the page cache, by samples. True if the system cannot tell."""
        ...

    def truncate(self, size: int) -> None: ...

    def reserve(self, size: int) -> None:
        """Allocate space for the file to grow to `size`. A hint: ignored where it is not supported."""
        ...

    def sync(self) -> None:
        """Make all appends so far durable. Blocks: run it in a worker."""
        ...

    def close(self) -> None:
        """Close now. Only for files without outstanding slices; others close with their last reference."""
        ...


class DirectoryLock(Protocol):
    def release(self) -> None: ...


class Disk(Protocol):
    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and appending; FileNotFoundError if it does not exist, unless `create`."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """The sorted names in a directory, so that no order depends on the file system."""
        ...

    def is_directory(self, path: str) -> bool: ...

    def make_directory(self, path: str) -> None:
        """Create it and its parents, unless it exists."""
        ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals in this directory durable."""
        ...

    def read_file(self, path: str) -> bytes: ...

    def write_file(self, path: str, data: bytes) -> None:
        """Replace a small file atomically and durably: temporary, sync, rename, sync the directory."""
        ...

    def modified_ms(self, path: str) -> int: ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None: ...

    def space(self, path: str) -> tuple[int, int]:
        """Total and usable bytes of the volume that holds `path`."""
        ...

    def lock(self, path: str) -> DirectoryLock:
        """Lock the file at `path` exclusively, or raise BlockingIOError."""
        ...


class RealFile:
    """A descriptor and its length. The length is cached, because a stat per append would cost a system call."""

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
        """Complete a write that a signal or a nearly full disk cut short; the next write raises the error, if any."""
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
            return self.read(
                position=position, size=size
            )  # not supported, or an error that `read` raises again
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
            return True  # not supported, or an error that the reader will get
        return True

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            raise self._named(error)  # noqa: B904, it is the same error
        self._size = size

    def reserve(self, size: int) -> None:
        import ctypes  # here, because few topics need it, and startup should not pay for it

        # Python's own os.posix_fallocate changes the size of the file.
        libc = ctypes.CDLL(None, use_errno=True)
        start, length = ctypes.c_int64(0), ctypes.c_int64(size)
        failed = libc.fallocate(self._fd, FALLOC_FL_KEEP_SIZE, start, length) != 0
        if failed and ctypes.get_errno() == errno.ENOSPC:
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
        """Add the name of the file, which errors of calls on descriptors lack."""
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

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

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
