"""The state of one bucket in pages: Spark keeps them in RocksDB, and a batch touches only pages with records.

Spark groups by bucket. One Spark state per key would cost a JVM call per key; one state per bucket would be rewritten
for a single record. Pages lie in between. Here a page is bytes; `folds` and `operators` define its content.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol
from zlib import crc32

BUCKETS = 32
"""The number of buckets of each domain. Checkpoints depend on it: with another number keys would be looked up
elsewhere."""

META = -1
"""The page that describes the others."""


class Pages(Protocol):
    """The pages of the current bucket."""

    def read(self, page: int) -> bytes | None: ...

    def write(self, page: int, data: bytes | None) -> None:
        """None deletes the page."""

    def is_empty(self) -> bool: ...


class MemoryPages:
    """In a dict, for tests and stages without state."""

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
    """In a map state of `transformWithState`. Spark selects the bucket before it calls."""

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
    """A number that determines the bucket (`% BUCKETS`) and the page (`// BUCKETS`) of a key."""
    return 0 if key is None else crc32(key)


def places_of(keys: list[bytes | None]) -> Iterator[int]:
    return (0 if key is None else crc32(key) for key in keys)
