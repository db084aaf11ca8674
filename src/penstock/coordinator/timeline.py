"""State that also keeps its committed version while writes are not committed yet.

Decisions read the newest state, because the next write follows the last one. Queries read committed state, because
uncommitted writes may be lost. Almost always everything is committed: then both are the same, and a change costs one
more test.

Values must be immutable: a change replaces the value. All state of a shard belongs to one `Timeline`. Only the runtime
calls `begin` and `commit`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Generic, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_ABSENT: Any = object()


class Timeline:
    __slots__ = ("_layers", "layer")

    def __init__(self) -> None:
        self._layers: deque[tuple[int, dict[Any, dict[Any, Any]]]] = deque()
        """Oldest first: the end offset of a write, and the values that it replaced, by map and key."""
        self.layer: dict[Any, dict[Any, Any]] | None = None
        """The values that the current write replaces; None if the write is committed already."""

    def begin(self, end_offset: int, *, is_committed: bool) -> None:
        """The following changes belong to the write that ends at `end_offset`."""
        if is_committed:
            self.layer = None
            return
        self.layer = {}
        self._layers.append((end_offset, self.layer))

    def commit(self, offset: int) -> None:
        """Everything below `offset` is committed."""
        layers = self._layers
        while layers and layers[0][0] <= offset:
            layers.popleft()

    def committed(self, owner: object, key: Any, newest: Any) -> Any:
        """The value at `key` before the oldest uncommitted write that changed it, or `newest` if none did."""
        for _, layer in self._layers:
            replaced = layer.get(owner)
            if replaced is not None and key in replaced:
                return replaced[key]
        return newest

    def replaced_keys(self, owner: object) -> dict[Any, Any]:
        """The keys of `owner` that uncommitted writes have changed, with their committed values."""
        found: dict[Any, Any] = {}
        for _, layer in self._layers:
            for key, value in layer.get(owner, {}).items():
                found.setdefault(key, value)
        return found


class TimelineMap(MutableMapping[K, V], Generic[K, V]):
    """A dict, and its committed version."""

    __slots__ = ("_newest", "_timeline")
    __hash__ = object.__hash__

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._newest: dict[K, V] = {}

    def __eq__(self, other: object) -> bool:
        return self is other

    def __getitem__(self, key: K) -> V:
        return self._newest[key]

    def __contains__(self, key: object) -> bool:
        return key in self._newest

    @overload
    def get(self, key: K, /) -> V | None: ...

    @overload
    def get(self, key: K, /, default: V | D) -> V | D: ...

    def get(self, key: K, /, default: Any = None) -> Any:
        return self._newest.get(key, default)  # the inherited one catches KeyError, at four times the cost

    def __iter__(self) -> Iterator[K]:
        return iter(self._newest)

    def __len__(self) -> int:
        return len(self._newest)

    def __setitem__(self, key: K, value: V) -> None:
        self._remember(key)
        self._newest[key] = value

    def put_all(self, items: Mapping[K, V]) -> None:
        """`self[key] = value` for each."""
        if self._timeline.layer is not None:
            for key in items:
                self._remember(key)
        self._newest.update(items)

    def __delitem__(self, key: K) -> None:
        if key not in self._newest:
            raise KeyError(key)
        self._remember(key)
        del self._newest[key]

    def committed(self, key: K) -> V | None:
        value = self._timeline.committed(self, key, self._newest.get(key, _ABSENT))
        return None if value is _ABSENT else value

    def committed_items(self) -> dict[K, V]:
        """A copy of the committed dict. Keys that were removed and are not committed yet come last."""
        replaced = self._timeline.replaced_keys(self)
        if not replaced:
            return dict(self._newest)
        items = {**self._newest, **replaced}
        return {key: value for key, value in items.items() if value is not _ABSENT}

    def _remember(self, key: K) -> None:
        layer = self._timeline.layer
        if layer is not None:
            layer.setdefault(self, {}).setdefault(key, self._newest.get(key, _ABSENT))


class TimelineValue(Generic[V]):
    """One value, and its committed version."""

    __slots__ = ("_newest", "_timeline")

    def __init__(self, timeline: Timeline, value: V) -> None:
        self._timeline = timeline
        self._newest = value

    @property
    def value(self) -> V:
        return self._newest

    @value.setter
    def value(self, value: V) -> None:
        layer = self._timeline.layer
        if layer is not None:
            layer.setdefault(self, {}).setdefault(None, self._newest)
        self._newest = value

    @property
    def committed(self) -> V:
        value: V = self._timeline.committed(self, None, self._newest)
        return value
