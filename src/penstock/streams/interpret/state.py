"""The state of tables: by the bytes of keys, in bytes where a type is known.

Keys are equal when their bytes are, as everywhere in Kafka; and because values are read anew from bytes each time, a
fold that changes an aggregate in place changes nothing that was there before.
"""

from __future__ import annotations

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

    def items(self) -> Iterator[tuple[Any, Any]]:
        """In the order of the keys' bytes."""
        for place in sorted(self._rows):
            key, value, _ = self._rows[place]
            yield key, self._read(value)

    def __len__(self) -> int:
        return len(self._rows)

    def _read(self, value: Any) -> Any:
        return value if self._value is None else self._value.decode(value)
