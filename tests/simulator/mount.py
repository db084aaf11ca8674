"""The disk as one process sees it. Every change is traced, and the process may die just before any of them.

A function that changes the disk several times is not atomic in a power cut. `changes_left` counts changes down and
kills the process between two of them, in the middle of a call: so files must be written, synced and renamed
in a safe order. A dead process cannot change anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from zlib import crc32

from penstock.runtime.disk import Buffer, DirectoryLock, File
from simulator.disk import SimulatedDisk
from simulator.process import Died, Process


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
        self.changes_left: int | None = None
        """How many more changes are made before the process dies; None: no limit."""
        self.countdown_trigger = ""
        """The countdown starts with the first change whose description contains this."""

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
        """Step by step like `RealDisk`, so that a crash may come between any two steps."""
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

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self.check()
        self._disk.set_modified_ms(path, modified_ms)

    def space(self, path: str) -> tuple[int, int]:
        self.check()
        return self._disk.space(path)

    def lock(self, path: str) -> DirectoryLock:
        self.check()
        return self._disk.lock(path)

    def check(self) -> None:
        """Raise `Died` if the process is dead."""
        if not self._process.is_alive:
            raise Died

    def change(self, what: str) -> None:
        """Called before every change: the process may die here."""
        self.check()
        if self.changes_left is not None and self.countdown_trigger in what:
            self.countdown_trigger = ""
            self.changes_left -= 1
            if self.changes_left < 0:
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
