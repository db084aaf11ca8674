"""The disk as one process sees it: every change is noted, and the process may die just before any of them.

A function that changes the disk several times is not one step for a power cut. `fuse` counts changes down and lets
the process die between two of them, in the middle of a call; only then is it shown that files are
written, synced and renamed in an order that survives. After the death nothing gets through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from zlib import crc32

from penstock.runtime.disk import Buffer, DirectoryLock, File
from penstock.testing.disk import SimulatedDisk
from penstock.testing.process import Died, Process


class Mount:
    """Implements `penstock.runtime.disk.Disk` over a `SimulatedDisk`."""

    def __init__(
        self,
        disk: SimulatedDisk,
        process: Process,
        *,
        note: Callable[[str], None],
        die: Callable[[], None],
    ) -> None:
        self._disk = disk
        self._process = process
        self._note = note
        self._die = die
        self.fuse: int | None = None
        """How many more changes go through before the process dies; None for as many as it likes."""
        self.fuse_lit_by = ""
        """The countdown waits for the first change that has this in its description."""

    def open(self, path: str, *, create: bool = False) -> File:
        self.check()
        if create and not self._disk.exists(path):
            self.change(f"create {path}")
        return MountedFile(self, self._disk.open(path, create=create))

    def exists(self, path: str) -> bool:
        self.check()
        return self._disk.exists(path)

    def list(self, path: str) -> list[str]:
        self.check()
        return self._disk.list(path)

    def is_directory(self, path: str) -> bool:
        self.check()
        return self._disk.is_directory(path)

    def make_directory(self, path: str) -> None:
        self.change(f"make {path}")
        self._disk.make_directory(path)

    def rename(self, old: str, new: str) -> None:
        self.change(f"rename {old} to {new}")
        self._disk.rename(old, new)

    def remove(self, path: str) -> None:
        self.change(f"remove {path}")
        self._disk.remove(path)

    def remove_tree(self, path: str) -> None:
        self.change(f"remove all of {path}")
        self._disk.remove_tree(path)

    def sync_directory(self, path: str) -> None:
        self.change(f"sync names in {path}")
        self._disk.sync_directory(path)

    def read_file(self, path: str) -> bytes:
        self.check()
        return self._disk.read_file(path)

    def write_file(self, path: str, data: bytes) -> None:
        """Step by step, as `RealDisk` does it, so that a crash may fall between any two."""
        temporary = path + ".tmp"
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.append((data,))
        file.sync()
        self.rename(temporary, path)
        self.sync_directory(path.rpartition("/")[0] or "/")

    def modified_ms(self, path: str) -> int:
        self.check()
        return self._disk.modified_ms(path)

    def space(self, path: str) -> tuple[int, int]:
        self.check()
        return self._disk.space(path)

    def lock(self, path: str) -> DirectoryLock:
        self.check()
        return self._disk.lock(path)

    def check(self) -> None:
        """Raise unless the process lives."""
        if not self._process.is_alive:
            raise Died

    def change(self, what: str) -> None:
        """About to change the disk: the last moment to die before it."""
        self.check()
        if self.fuse is not None and self.fuse_lit_by in what:
            self.fuse_lit_by = ""
            self.fuse -= 1
            if self.fuse < 0:
                self._note(f"{self._process.name} dies before: {what}")
                self._die()
                raise Died
        self._note(what)


class MountedFile:
    __slots__ = ("_file", "_mount", "path")

    def __init__(self, mount: Mount, file: File) -> None:
        self._mount = mount
        self._file = file
        self.path = file.path

    def fileno(self) -> int:
        return -1

    def size(self) -> int:
        return self._file.size()

    def append(self, buffers: Sequence[Buffer]) -> int:
        data = b"".join(buffers)
        self._mount.change(f"append {len(data)} bytes, {crc32(data):08x}, to {self.path}")
        return self._file.append((data,))

    def read(self, *, position: int, size: int) -> bytes:
        self._mount.check()
        return self._file.read(position=position, size=size)

    def read_cached(self, *, position: int, size: int) -> bytes | bytearray | None:
        self._mount.check()
        return self._file.read_cached(position=position, size=size)

    def is_cached(self, *, position: int, size: int) -> bool:
        self._mount.check()
        return self._file.is_cached(position=position, size=size)

    def truncate(self, size: int) -> None:
        self._mount.change(f"cut {self.path} to {size} bytes")
        self._file.truncate(size)

    def reserve(self, size: int) -> None:
        self._mount.check()
        self._file.reserve(size)

    def sync(self) -> None:
        self._mount.change(f"sync {self.path}")
        self._file.sync()

    def close(self) -> None:
        self._mount.check()
        self._file.close()
