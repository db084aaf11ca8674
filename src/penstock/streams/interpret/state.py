"""The state of tables: by the bytes of keys, in bytes where a type is known.

Keys are equal when their bytes are, as everywhere in Kafka; and because values are read anew from bytes each time, a
fold that changes an aggregate in place changes nothing that was there before. An aggregate that JSON would give back as
something else is refused: what comes of it would depend on how often it was written on the way.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from penstock.client.argument_types import quoted
from penstock.streams.nouns import Change, Headers, Record, TopologyError
from penstock.streams.serdes import Serde, natural_bytes


class State:
    """The last value of each key, with its timestamp. `is_folded` says that the next value is made of the last one."""

    def __init__(self, key: Serde[Any] | None, value: Serde[Any] | None, *, is_folded: bool = False) -> None:
        self._key = key
        self._value = value
        self._must_come_back = is_folded and value is not None and value.is_json
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
        place = self.place(key)
        row = self._rows.get(place)
        old = None if row is None else self._read(row[1])
        if new is None:
            self._rows.pop(place, None)
        else:
            written = new if self._value is None else self._value.encode(new)
            read = self._read(written)
            if self._must_come_back and (found := difference(new, read)) is not None:
                raise _comes_back_otherwise(key, *found)
            self._rows[place] = (key, written, timestamp_ms)
            new = read  # not itself, which its owner may go on changing
        if new is not None or old is not None:
            yield Record(key, Change(new, old), timestamp_ms, headers)

    def forget(self, is_expired: Callable[[Any], bool]) -> None:
        """Drop the rows of expired keys. Unlike a deletion, this is not passed on as a change."""
        self._rows = {place: row for place, row in self._rows.items() if not is_expired(row[0])}

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
        self._swept_at_ms = -1

    def put(self, key: Any, value: Any, timestamp_ms: int) -> None:
        place = self.place(key)
        written = value if value is None or self._value is None else self._value.encode(value)
        versions = self._versions.setdefault(place, [])
        at = bisect_left(versions, timestamp_ms, key=_since)
        has_same_time = at < len(versions) and versions[at][0] == timestamp_ms
        versions[at : at + has_same_time] = [(timestamp_ms, written)]
        self._observed_ms = max(self._observed_ms, timestamp_ms)
        self._forget(place)
        if self._observed_ms - self._swept_at_ms >= max(1, self._history_ms // 2):
            self._forget_deleted()
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

    def _forget_deleted(self) -> None:
        """Keys that were deleted before the history begins: else a table would grow with every key that it ever had."""
        self._swept_at_ms = self._observed_ms
        begins_ms = self._observed_ms - self._history_ms
        self._versions = {
            place: versions
            for place, versions in self._versions.items()
            if versions[-1][1] is not None or versions[-1][0] > begins_ms
        }


def _since(version: tuple[int, Any]) -> int:
    return version[0]


def difference(one: Any, other: Any) -> tuple[Any, Any] | None:
    """The first parts that a function would see differ between the one and the other; None where there are none. What
    has no equality of its own, or is not equal to itself, is compared by its parts."""
    if one is other or one == other:
        return None
    pairs: Iterable[tuple[Any, Any]]
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            return _only_in(one, other), _only_in(other, one)
        pairs = ((value, other[key]) for key, value in one.items())
    elif any(isinstance(one, kind) and isinstance(other, kind) for kind in (list, tuple)):
        if len(one) != len(other):
            return one, other
        pairs = zip(one, other, strict=True)
    elif type(one) is type(other) and (names := _fields(one)) is not None:
        pairs = ((getattr(one, name), getattr(other, name)) for name in names)
    else:
        is_no_number = isinstance(one, float) and isinstance(other, float) and one != one and other != other
        return None if is_no_number else (one, other)
    return next(filter(None, (difference(*pair) for pair in pairs)), None)


def _only_in(one: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:
    return {key: value for key, value in one.items() if key not in other}


def _fields(value: Any) -> Iterable[str] | None:
    """Of a dataclass, a msgspec struct or a pydantic model; None of anything else."""
    for name in ("__dataclass_fields__", "__struct_fields__", "__pydantic_fields__"):
        found: Iterable[str] | None = getattr(type(value), name, None)
        if found is not None:
            return found
    return None


def _comes_back_otherwise(key: Any, was: Any, read: Any) -> TopologyError:
    return TopologyError(
        f"the aggregate of key {quoted(key)} comes back from JSON with {quoted(read)} where {quoted(was)} was, "
        "so the next record would be folded into something else: "
        "use text as keys of a dict and lists instead of tuples, "
        "or give value= a type that says what is in it (dict[int, int], list[tuple[str, int]], a dataclass) or a serde"
    )
