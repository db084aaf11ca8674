"""The state of tables: by serialized key, with serialized values where the type is known.

Keys are equal if their bytes are equal, as everywhere in Kafka. Each read deserializes the value anew, so a fold that
changes an aggregate in place does not change the stored one. An aggregate that JSON would not restore unchanged is
rejected: the result would depend on how often it was stored on the way.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from penstock.client.argument_types import quoted
from penstock.streams.nouns import Change, Headers, Record, TopologyError
from penstock.streams.serdes import Serde, natural_bytes


class State:
    """The last value of each key, with its timestamp. `is_folded`: the next value is computed from the last one."""

    def __init__(self, key: Serde[Any] | None, value: Serde[Any] | None, *, is_folded: bool = False) -> None:
        self._key = key
        self._value = value
        self._must_come_back = is_folded and value is not None and value.is_json
        self._rows: dict[bytes, tuple[Any, Any, int]] = {}

    def place(self, key: Any) -> bytes:
        """The serialized key."""
        data = natural_bytes(key) if self._key is None else self._key.encode(key)
        return b"" if data is None else data

    def get(self, key: Any) -> Any:
        return self.with_timestamp(key)[0]

    def with_timestamp(self, key: Any) -> tuple[Any, int]:
        """The value and its timestamp; (None, -1) if the key does not exist."""
        row = self._rows.get(self.place(key))
        return (None, -1) if row is None else (self._read(row[1]), row[2])

    def put(self, key: Any, value: Any, timestamp_ms: int) -> None:
        """None deletes the key."""
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
        """Put a value, and return the change; None if there was nothing and is nothing."""
        place = self.place(key)
        row = self._rows.get(place)
        old = None if row is None else self._read(row[1])
        if new is None:
            self._rows.pop(place, None)
        else:
            written = new if self._value is None else self._value.encode(new)
            read = self._read(written)
            if self._must_come_back and (found := difference(new, read)) is not None:
                raise _not_preserved_by_json(key, *found)
            self._rows[place] = (key, written, timestamp_ms)
            new = read  # a copy, because the owner may continue to change it
        if new is not None or old is not None:
            yield Record(key, Change(new, old), timestamp_ms, headers)

    def forget(self, is_expired: Callable[[Any], bool]) -> None:
        """Delete the rows of expired keys. Unlike a deletion, this is not forwarded as a change."""
        self._rows = {place: row for place, row in self._rows.items() if not is_expired(row[0])}

    def kept(self) -> Any:
        """All its content, to be restored into another one; None or empty if there is none."""
        return self._rows

    def put_back(self, kept: Any) -> None:
        self._rows = kept

    def items(self) -> Iterator[tuple[Any, Any]]:
        """In the order of the serialized keys."""
        for place in sorted(self._rows):
            key, value, _ = self._rows[place]
            yield key, self._read(value)

    def __len__(self) -> int:
        return len(self._rows)

    def _read(self, value: Any) -> Any:
        return value if self._value is None else self._value.decode(value)


class VersionedState(State):
    """Also keeps older values of keys, for `history_ms` behind the latest timestamp that was put.

    The last value of a key is the one with the latest timestamp, whenever it arrived. It never expires.
    """

    def __init__(self, key: Serde[Any] | None, value: Serde[Any] | None, history_ms: int) -> None:
        super().__init__(key, value)
        self._history_ms = history_ms
        self._versions: dict[bytes, list[tuple[int, Any]]] = {}
        """By serialized key: the values with their start times, in order of time; None for a deletion."""
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
        """Every version is forwarded, also one that changes nothing now, because derived tables have a history too."""
        if timestamp_ms < self._observed_ms - self._history_ms:
            return
        versions = self._versions.get(self.place(key), ())
        is_latest = not versions or versions[-1][0] <= timestamp_ms
        old = self.get(key)
        self.put(key, new, timestamp_ms)
        yield Record(key, Change(self.as_of(key, timestamp_ms), old, is_latest), timestamp_ms, headers)

    def as_of(self, key: Any, timestamp_ms: int) -> Any:
        """The value that a key had at a time; None if it had none, or if the time is before the history."""
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
        """Versions that can no longer be queried: those that ended before the history starts."""
        versions = self._versions[place]
        begins = bisect_right(versions, self._observed_ms - self._history_ms, key=_since) - 1
        if begins > 0:
            del versions[:begins]

    def _forget_deleted(self) -> None:
        """Keys that were deleted before the history starts; otherwise a table would grow with every key it ever had."""
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
    """The first differing parts that a function could see; None if there are none. Values without an equality of
    their own, or not equal to themselves, are compared by their parts."""
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
    """The fields of a dataclass, a msgspec struct or a pydantic model; None for anything else."""
    for name in ("__dataclass_fields__", "__struct_fields__", "__pydantic_fields__"):
        found: Iterable[str] | None = getattr(type(value), name, None)
        if found is not None:
            return found
    return None


def _not_preserved_by_json(key: Any, was: Any, read: Any) -> TopologyError:
    return TopologyError(
        f"JSON does not preserve the aggregate of key {quoted(key)}: {quoted(was)} becomes {quoted(read)}. "
        "Use strings as dict keys and lists instead of tuples, "
        "or pass value= a precise type (dict[int, int], list[tuple[str, int]], a dataclass) or a serde"
    )
