"""Kafka's checkpoint files: a version, a count, and one line per entry.

    0
    2
    orders 0 1041
    orders 1 998

They are small and always replaced atomically (`Disk.write_file`). A file whose count does not match its lines is
refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from penstock.runtime.disk import Disk
from penstock.storage.errors import CorruptFile
from penstock.storage.files import read_if_exists

VERSION = 0

Partition = tuple[str, int]
T = TypeVar("T")


def encode_offsets(offsets: Mapping[Partition, int]) -> bytes:
    return _encode(f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items()))


def decode_offsets(data: bytes, *, name: str) -> dict[Partition, int]:
    def entry(line: str) -> tuple[Partition, int]:
        topic, partition, offset = line.split()
        return (topic, int(partition)), int(offset)

    return dict(_decode(data, entry, name=name))


def encode_epochs(epochs: Iterable[tuple[int, int]]) -> bytes:
    """Pairs of leader epoch and the first offset written in it."""
    return _encode(f"{epoch} {start_offset}" for epoch, start_offset in epochs)


def decode_epochs(data: bytes, *, name: str) -> list[tuple[int, int]]:
    def entry(line: str) -> tuple[int, int]:
        epoch, start_offset = line.split()
        return int(epoch), int(start_offset)

    return _decode(data, entry, name=name)


class OffsetCheckpoint:
    """One checkpoint file of a directory. Newer offsets are never replaced by older ones.

    `prepare` runs on the event loop and fixes what is written; the function that it returns may run anywhere, at any
    time.
    """

    def __init__(self, disk: Disk, path: str) -> None:
        self.path = path
        self.offsets: Mapping[Partition, int] = {}
        """The offsets that the file has when everything prepared has run."""
        self._disk = disk
        self._lock = threading.Lock()
        self._prepared = 0
        self._written = 0

    def read(self) -> Mapping[Partition, int]:
        """The offsets in the file; none if there is no file."""
        data = read_if_exists(self._disk, self.path)
        self.offsets = decode_offsets(data, name=self.path) if data is not None else {}
        return self.offsets

    def prepare(self, offsets: Mapping[Partition, int]) -> Callable[[], None] | None:
        """A function that writes `offsets`; None if the file has them already.

        A prepared write may never run: a shutdown cancels background work.
        """
        if offsets == self.offsets and self._written == self._prepared:
            return None
        self.offsets = offsets
        self._prepared += 1
        number = self._prepared

        def write() -> None:
            with self._lock:
                if number > self._written:
                    self._disk.write_file(self.path, encode_offsets(offsets))
                    self._written = number

        return write


def _encode(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "\n".join([str(VERSION), str(len(entries)), *entries, ""]).encode()


def _decode(data: bytes, entry: Callable[[str], T], *, name: str) -> list[T]:
    lines = data.decode(errors="replace").splitlines()
    if not lines:
        return []  # Kafka creates the file empty and fills it later
    try:
        if int(lines[0]) != VERSION:
            raise CorruptFile(f"{name} has version {lines[0]}, not {VERSION}")
        entries = [entry(line) for line in lines[2:]]
        if len(entries) != int(lines[1]):
            raise CorruptFile(f"{name} declares {lines[1]} entries, but has {len(entries)}")
    except (ValueError, IndexError) as error:
        raise CorruptFile(f"{name} is not a checkpoint: {error}") from error
    return entries
