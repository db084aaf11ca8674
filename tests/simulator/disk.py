"""An in-memory disk that loses unsynced data in a crash.

It keeps each file and folder twice: as programs see it, and as it would be found after a power cut. The difference is
a list of steps (bytes appended, a truncation, a name added or removed) that only `sync` and `sync_directory` make
durable. A crash applies each list up to a random step. The last step may be applied by half, and its bytes, or the
rest of them, may be zeroes, as on file systems that write a new length before the data. So a program that survives
many seeds syncs everything that it has to.

Steps of one file or folder are applied in order, those of different ones in any order. This is stricter than ext4, on
purpose.
"""

from __future__ import annotations

import errno
import os
import posixpath
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from weakref import WeakSet

from penstock.runtime.disk import Buffer

WRITING = frozenset(
    {"create", "append", "truncate", "sync", "rename", "remove", "sync_directory", "make_directory"}
)
"""Operations that fail on a read-only file system."""

PAGE_BYTES = 4096
EVICTION_CHANCE = 0.2  # of an idle file, each time a program asks whether it is cached
EVICTION_AGE_MS = 1000  # a file used more recently is not evicted
UNLIMITED_BYTES = 1 << 50  # reported size of a disk without a limit


@dataclass(slots=True)
class Fault:
    """An error for operations on paths that start with `prefix`."""

    prefix: str
    errno: int
    operations: frozenset[str]
    skip: int = 0
    """How many operations succeed first."""


@dataclass(slots=True)
class _Write:
    position: int
    data: bytes


@dataclass(slots=True)
class _Cut:
    size: int


@dataclass(slots=True, eq=False)
class _FileNode:
    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    steps: list[_Write | _Cut] = field(default_factory=list)
    modified_ms: int = 0
    cold_pages: set[int] = field(default_factory=set)
    """Pages that are not in memory: reading them waits for the disk."""
    used_ms: int = 0

    def write(self, position: int, data: bytes) -> None:
        self.cold_pages -= _pages(position, len(data))
        _apply(self.data, _Write(position, data))
        self.steps.append(_Write(position, data))

    def cut(self, size: int) -> None:
        _apply(self.data, _Cut(size))
        self.steps.append(_Cut(size))

    def sync(self) -> None:
        self.durable = bytes(self.data)
        self.steps.clear()

    def crash(self, rng: random.Random) -> None:
        found = bytearray(self.durable)
        survivors = rng.randint(0, len(self.steps))
        for step in self.steps[:survivors]:
            _apply(found, step)
        if survivors < len(self.steps):
            torn = self.steps[survivors]
            if isinstance(torn, _Write) and torn.data:
                part = torn.data[: rng.randint(0, len(torn.data))]
                fate = rng.random()
                if fate < 0.3:
                    part = bytes(len(part))
                elif fate < 0.5:
                    part += bytes(len(torn.data) - len(part))
                elif fate > 0.8:
                    part = b""  # a new file is often found empty: its blocks were still to be allocated
                _apply(found, _Write(torn.position, part))
        self.data = found
        self.sync()


@dataclass(slots=True, eq=False)
class _FolderNode:
    entries: dict[str, _FileNode | _FolderNode] = field(default_factory=dict)
    durable: dict[str, _FileNode | _FolderNode] = field(default_factory=dict)
    steps: list[_Entry] = field(default_factory=list)

    def change(self, step: _Entry) -> None:
        step.apply(self.entries)
        self.steps.append(step)

    def sync(self) -> None:
        self.durable = dict(self.entries)
        self.steps.clear()

    def crash(self, rng: random.Random) -> None:
        found = dict(self.durable)
        for step in self.steps[: rng.randint(0, len(self.steps))]:
            step.apply(found)
        self.entries = found
        self.sync()
        for name in sorted(found):
            found[name].crash(rng)


@dataclass(slots=True)
class _Entry:
    """One change of a folder: a name removed, a name added, or both at once."""

    removed: str | None = None
    added: tuple[str, _FileNode | _FolderNode] | None = None

    def apply(self, entries: dict[str, _FileNode | _FolderNode]) -> None:
        if self.removed is not None:
            entries.pop(self.removed, None)
        if self.added is not None:
            name, node = self.added
            entries[name] = node


class SimulatedDisk:
    """One machine's file system; implements `penstock.runtime.disk.Disk`."""

    def __init__(self, *, capacity_bytes: int | None = None, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.capacity_bytes = capacity_bytes
        self._now_ms = now_ms
        self._root = _FolderNode()
        self._faults: list[Fault] = []
        self._locks: set[str] = set()
        self._open_files: WeakSet[SimulatedFile] = WeakSet()
        self._life = 0
        self.eviction: random.Random | None = None
        """Now and then evicts a file from the page cache, when a program asks whether it is cached."""
        self.on_cold_read: Callable[[str], None] | None = None
        """Called with the path when a read waits for the disk."""

    # Called by tests

    def crash(self, rng: random.Random) -> None:
        """Power cut: unsynced data is lost or torn, and open files become invalid."""
        self._root.crash(rng)
        self.kill()

    def kill(self) -> None:
        """The process dies, the machine does not: files keep their content, open files become invalid."""
        self._life += 1
        self._locks.clear()

    def fail(
        self, prefix: str, error: int, *, operations: Iterable[str] | None = None, skip: int = 0
    ) -> None:
        """Return `error` (an errno) for paths under `prefix`, after `skip` successful operations."""
        chosen = frozenset(operations) if operations is not None else WRITING | {"read", "open", "list"}
        self._faults.append(Fault(prefix, error, chosen, skip))

    def make_read_only(self, prefix: str) -> None:
        self.fail(prefix, errno.EROFS, operations=WRITING)

    def heal(self) -> None:
        """Remove all faults."""
        self._faults.clear()

    def overwrite(self, path: str, position: int, data: bytes) -> None:
        """Damage a file durably, without a trace."""
        node = self._file(path)
        _apply(node.data, _Write(position, data))
        node.sync()

    def evict(self, prefix: str = "/") -> None:
        """Drop all pages of the files under `prefix` from the page cache."""
        for path, node in _walk("/", self._root):
            if isinstance(node, _FileNode) and path.startswith(prefix):
                node.cold_pages = _pages(0, len(node.data))

    def paths(self) -> list[str]:
        """The paths of all files."""
        return [path for path, node in _walk("/", self._root) if isinstance(node, _FileNode)]

    def open_paths(self) -> list[str]:
        """The paths of open files, as they were when opened."""
        files = [file for file in self._open_files if file.is_open and file.life == self._life]
        return sorted(file.path for file in files)

    def content(self, path: str) -> bytes:
        """The content of a file, as programs see it, even if reading it fails."""
        return bytes(self._file(path).data)

    def used_bytes(self) -> int:
        return sum(len(node.data) for _, node in _walk("/", self._root) if isinstance(node, _FileNode))

    def room_bytes(self) -> int | None:
        """Free space; None without a limit."""
        return None if self.capacity_bytes is None else max(0, self.capacity_bytes - self.used_bytes())

    # Called by programs

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        self._check("open", path)
        folder, name = self._parent(path)
        node = folder.entries.get(name)
        if node is None:
            if not create:
                raise _error(errno.ENOENT, path)
            self._check("create", path)
            node = _FileNode(modified_ms=self._now_ms())
            folder.change(_Entry(added=(name, node)))
        if not isinstance(node, _FileNode):
            raise _error(errno.EISDIR, path)
        return SimulatedFile(self, path, node)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def list(self, path: str) -> list[str]:
        self._check("list", path)
        return sorted(self._folder(path).entries)

    def is_directory(self, path: str) -> bool:
        return isinstance(self._find(path), _FolderNode)

    def make_directory(self, path: str) -> None:
        folder = self._root
        for name in _names(path):
            found = folder.entries.get(name)
            if found is None:
                self._check("make_directory", path)
                found = _FolderNode()
                folder.change(_Entry(added=(name, found)))
            if not isinstance(found, _FolderNode):
                raise _error(errno.ENOTDIR, path)
            folder = found

    def rename(self, old: str, new: str) -> None:
        self._check("rename", old)
        folder, old_name = self._parent(old)
        new_folder, new_name = self._parent(new)
        if folder is not new_folder:
            raise _error(
                errno.EXDEV, new
            )  # no caller moves between folders, so a crash in the middle is not modelled
        if old_name not in folder.entries:
            raise _error(errno.ENOENT, old)
        folder.change(_Entry(removed=old_name, added=(new_name, folder.entries[old_name])))

    def remove(self, path: str) -> None:
        self._check("remove", path)
        self._file(path)
        folder, name = self._parent(path)
        folder.change(_Entry(removed=name))

    def remove_tree(self, path: str) -> None:
        self._check("remove", path)
        self._folder(path)
        folder, name = self._parent(path)
        folder.change(_Entry(removed=name))

    def sync_directory(self, path: str) -> None:
        self._check("sync_directory", path)
        self._folder(path).sync()

    def read_file(self, path: str) -> bytes:
        self._check("open", path)
        self._check("read", path)
        return bytes(self._file(path).data)

    def write_file(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.append((data,))
        file.sync()
        self.rename(temporary, path)
        self.sync_directory(posixpath.dirname(path))

    def modified_ms(self, path: str) -> int:
        return self._file(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._file(path).modified_ms = modified_ms

    def space(self, path: str) -> tuple[int, int]:
        self._check("list", path)
        room = self.room_bytes()
        return (UNLIMITED_BYTES, UNLIMITED_BYTES) if room is None else (self.capacity_bytes or 0, room)

    def lock(self, path: str) -> SimulatedLock:
        self.open(path, create=True)
        if path in self._locks:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), path)
        self._locks.add(path)
        return SimulatedLock(self._locks, path)

    # Internals

    def _check(self, operation: str, path: str) -> None:
        for fault in self._faults:
            if operation in fault.operations and path.startswith(fault.prefix):
                if fault.skip > 0:
                    fault.skip -= 1
                    continue
                raise _error(fault.errno, path)

    def _find(self, path: str) -> _FileNode | _FolderNode | None:
        node: _FileNode | _FolderNode | None = self._root
        for name in _names(path):
            node = node.entries.get(name) if isinstance(node, _FolderNode) else None
        return node

    def _file(self, path: str) -> _FileNode:
        node = self._find(path)
        if isinstance(node, _FileNode):
            return node
        raise _error(errno.ENOENT if node is None else errno.EISDIR, path)

    def _folder(self, path: str) -> _FolderNode:
        node = self._find(path)
        if isinstance(node, _FolderNode):
            return node
        raise _error(errno.ENOENT if node is None else errno.ENOTDIR, path)

    def _parent(self, path: str) -> tuple[_FolderNode, str]:
        parent, name = posixpath.split(path)
        return self._folder(parent), name


class SimulatedFile:
    """An open file. Like a real one it outlives its name, but not its process."""

    def __init__(self, disk: SimulatedDisk, path: str, node: _FileNode) -> None:
        self.path = path
        self._disk = disk
        self._node = node
        self._size = len(node.data)
        self.life = disk._life
        self.is_open = True
        disk._open_files.add(self)

    def fileno(self) -> int:
        return -1

    def size(self) -> int:
        return self._size

    def append(self, buffers: Sequence[Buffer]) -> int:
        self._check("append")
        data = b"".join(buffers)
        room = self._disk.room_bytes()
        if room is not None and len(data) > room:
            self._node.write(self._size, data[:room])  # a full disk writes what fits, then fails
            raise _error(errno.ENOSPC, self.path)
        self._node.write(self._size, data)
        self._node.modified_ms = self._disk._now_ms()
        self._size += len(data)
        return len(data)

    def read(self, *, position: int, size: int) -> bytes:
        self._check("read")
        pages = _pages(position, min(size, self._size - position))
        self._node.used_ms = self._disk._now_ms()
        if pages & self._node.cold_pages:
            if self._disk.on_cold_read is not None:
                self._disk.on_cold_read(self.path)
            self._node.cold_pages -= pages
        return bytes(self._node.data[position : position + size])

    def read_cached(self, *, position: int, size: int) -> bytes | None:
        if not self.is_cached(position=position, size=size):
            return None
        return self.read(position=position, size=size)

    def is_cached(self, *, position: int, size: int) -> bool:
        rng, now_ms = self._disk.eviction, self._disk._now_ms()
        is_idle = now_ms - self._node.used_ms > EVICTION_AGE_MS
        self._node.used_ms = now_ms
        if rng is not None and is_idle and rng.random() < EVICTION_CHANCE:
            self._node.cold_pages = _pages(0, len(self._node.data))
        return not _pages(position, min(size, self._size - position)) & self._node.cold_pages

    def truncate(self, size: int) -> None:
        self._check("truncate")
        self._node.cut(size)
        self._size = size

    def reserve(self, size: int) -> None:
        self._check("append")
        room = self._disk.room_bytes()
        if room is not None and size - len(self._node.data) > room:
            raise _error(errno.ENOSPC, self.path)

    def sync(self) -> None:
        self._check("sync")
        self._node.sync()

    def close(self) -> None:
        self.is_open = False

    def _check(self, operation: str) -> None:
        if not self.is_open:
            raise _error(errno.EBADF, self.path)
        if self.life != self._disk._life:
            raise _error(errno.ESTALE, self.path)
        self._disk._check(operation, self.path)


class SimulatedLock:
    def __init__(self, locks: set[str], path: str) -> None:
        self._locks = locks
        self._path = path

    def release(self) -> None:
        self._locks.discard(self._path)


def _apply(data: bytearray, step: _Write | _Cut) -> None:
    if isinstance(step, _Cut):
        del data[step.size :]
        data.extend(bytes(step.size - len(data)))
    else:
        data.extend(bytes(max(0, step.position - len(data))))
        data[step.position : step.position + len(step.data)] = step.data


def _pages(position: int, size: int) -> set[int]:
    return set(range(position // PAGE_BYTES, -(-(position + size) // PAGE_BYTES))) if size > 0 else set()


def _walk(path: str, folder: _FolderNode) -> Iterator[tuple[str, _FileNode | _FolderNode]]:
    for name, node in sorted(folder.entries.items()):
        child = posixpath.join(path, name)
        yield child, node
        if isinstance(node, _FolderNode):
            yield from _walk(child, node)


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
