"""The state of tables: by the bytes of keys, in bytes where a type is known.

Keys are equal when their bytes are, as everywhere in Kafka; and because values are read anew from bytes each time, a
fold that changes an aggregate in place changes nothing that was there before.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any

from penstock.streams.nouns import Change, Headers, Record
from penstock.streams.serdes import Serde, natural_bytes


class State:
    """The last value of each key, with its timestamp."""

    def __init__(self, key: Serde[Any] | None, value: Serde[Any] | None) -> None:
        self._key = key
        self._value = value
        self._rows: dict[bytes, tuple[Any, Any, int]] = {}

    def place(self, key: Any) -> bytes:
        """The bytes by which a key is known."""
        data = natural_bytes(key) if self._key is None else self._key.encode(key)
        return b"" if data is None else data

    def get(self, key: Any) -> Any:
        return self.with_timestamp(key)[0]

    def with_timestamp(self, key: Any) -> tuple[Any, int]:
        """The value and its timestamp; (None, -1) of a key that is not there."""
        row = self._rows.get(self.place(key))
        return (None, -1) if row is None else (self._read(row[1]), row[2])

    def put(self, key: Any, value: Any, timestamp_ms: int) -> None:
        """None deletes."""
        place = self.place(key)
        if value is None:
            self._rows.pop(place, None)
        else:
            self._rows[place] = (
                key,
                value if self._value is None else self._value.encode(value),
                timestamp_ms,
            )

    def change(
        self, key: Any, new: Any, timestamp_ms: int, headers: Headers = ()
    ) -> Iterator[Record[Any, Change[Any]]]:
        """Put a value, and say what has changed: nothing where there was nothing and is nothing."""
        old = self.get(key)
        self.put(key, new, timestamp_ms)
        if new is not None or old is not None:
            # Not `new` itself, which its owner may go on changing.
            yield Record(key, Change(self.get(key), old), timestamp_ms, headers)

    def kept(self) -> Any:
        """All that it holds, to be put back into another one; None or nothing where it holds nothing."""
        return self._rows

    def put_back(self, kept: Any) -> None:
        self._rows = kept

    def items(self) -> Iterator[tuple[Any, Any]]:
        """In the order of the keys' bytes."""
        for place in sorted(self._rows):
            key, value, _ = self._rows[place]
            yield key, self._read(value)

    def __len__(self) -> int:
        return len(self._rows)

    def _read(self, value: Any) -> Any:
        return value if self._value is None else self._value.decode(value)


class VersionedState(State):
    """Also the values that keys had before, for as long as `history_ms` behind the latest timestamp that was put.

    The last value of a key is that of its latest timestamp, whenever that came. It never expires.
    """

    def __init__(self, key: Serde[Any] | None, value: Serde[Any] | None, history_ms: int) -> None:
        super().__init__(key, value)
        self._history_ms = history_ms
        self._versions: dict[bytes, list[tuple[int, Any]]] = {}
        """By the bytes of a key: since when it had which value, in order of time; None where it was deleted."""
        self._observed_ms = -1

    def put(self, key: Any, value: Any, timestamp_ms: int) -> None:
        place = self.place(key)
        written = value if value is None or self._value is None else self._value.encode(value)
        versions = self._versions.setdefault(place, [])
        at = bisect_left(versions, timestamp_ms, key=_since)
        has_same_time = at < len(versions) and versions[at][0] == timestamp_ms
        versions[at : at + has_same_time] = [(timestamp_ms, written)]
        self._observed_ms = max(self._observed_ms, timestamp_ms)
        self._forget(place)
        if versions[-1][0] == timestamp_ms:
            super().put(key, value, timestamp_ms)

    def change(
        self, key: Any, new: Any, timestamp_ms: int, headers: Headers = ()
    ) -> Iterator[Record[Any, Change[Any]]]:
        """Every version is told, also one that changes nothing now: tables that are made of this one have a history
        too."""
        if timestamp_ms < self._observed_ms - self._history_ms:
            return
        versions = self._versions.get(self.place(key), ())
        is_latest = not versions or versions[-1][0] <= timestamp_ms
        old = self.get(key)
        self.put(key, new, timestamp_ms)
        yield Record(key, Change(self.as_of(key, timestamp_ms), old, is_latest), timestamp_ms, headers)

    def as_of(self, key: Any, timestamp_ms: int) -> Any:
        """The value that a key had at a time; None where it had none, or where that is longer ago than the history."""
        versions = self._versions.get(self.place(key), ())
        at = bisect_right(versions, timestamp_ms, key=_since) - 1
        is_latest = at == len(versions) - 1
        if at < 0 or (not is_latest and timestamp_ms < self._observed_ms - self._history_ms):
            return None
        value = versions[at][1]
        return None if value is None else self._read(value)

    def kept(self) -> Any:
        return None if self._observed_ms < 0 else (self._rows, self._versions, self._observed_ms)

    def put_back(self, kept: Any) -> None:
        self._rows, self._versions, self._observed_ms = kept

    def _forget(self, place: bytes) -> None:
        """Versions that nobody can ask for: those that ended before the history begins."""
        versions = self._versions[place]
        begins = bisect_right(versions, self._observed_ms - self._history_ms, key=_since) - 1
        if begins > 0:
            del versions[:begins]


def _since(version: tuple[int, Any]) -> int:
    return version[0]
