"""State of one bucket, in pages: what Spark keeps in RocksDB and a batch touches only where it has records.

A bucket is what Spark groups by. One state of Spark for each key would cost a call to the JVM for each of them, and one
state for a whole bucket would be written anew for a single record; pages lie between. A page is bytes here; what is
in them is the matter of `folds` and `operators`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol
from zlib import crc32

BUCKETS = 32
"""Of each domain. It is part of what a checkpoint means: with another number, keys would be looked for elsewhere."""

META = -1
"""The page that tells of the others."""


class Pages(Protocol):
    """The pages of the bucket at hand."""

    def read(self, page: int) -> bytes | None: ...

    def write(self, page: int, data: bytes | None) -> None:
        """None forgets the page."""

    def is_empty(self) -> bool: ...


class MemoryPages:
    """In a dict, for tests and for what needs no state."""

    def __init__(self) -> None:
        self.pages: dict[int, bytes] = {}

    def read(self, page: int) -> bytes | None:
        return self.pages.get(page)

    def write(self, page: int, data: bytes | None) -> None:
        if data is None:
            self.pages.pop(page, None)
        else:
            self.pages[page] = data

    def is_empty(self) -> bool:
        return not self.pages


class SparkPages:
    """In a map state of `transformWithState`, whose bucket Spark has chosen before it calls."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def read(self, page: int) -> bytes | None:
        row = self._state.getValue((page,))
        return None if row is None else bytes(row[0])

    def write(self, page: int, data: bytes | None) -> None:
        if data is None:
            self._state.removeKey((page,))
        else:
            self._state.updateValue((page,), (data,))

    def is_empty(self) -> bool:
        return not self._state.exists()


def place_of(key: bytes | None) -> int:
    """A number by which a key finds its bucket (`% BUCKETS`) and its page (`// BUCKETS`)."""
    return 0 if key is None else crc32(key)


def places_of(keys: list[bytes | None]) -> Iterator[int]:
    return (0 if key is None else crc32(key) for key in keys)
