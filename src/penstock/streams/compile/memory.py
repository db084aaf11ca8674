"""The state of operators between batches, as bytes: taken from their attributes and put back.

Windows that can no longer change are deleted first. The interpreter keeps them for queries; here queries read the
changelog. Expired rows of window and session stores are deleted first, too.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

from penstock.spark.internals import pickle_by_value
from penstock.streams import topology as t
from penstock.streams.interpret.operators import Operator, TableOperator
from penstock.streams.interpret.processing import ProcessRecords, SessionValues, WindowValues
from penstock.streams.interpret.state import State
from penstock.streams.nouns import Windowed

# Attributes that define an operator rather than its state.
_NOT_STATE = frozenset({"node", "tables", "_serdes", "_places", "_right", "_rights", "_engine", "_processor"})
_OF_STORES = ("_state", "_latest_ms")
_TIMERS = "timers"
_NOTHING: tuple[Any, ...] = ({}, [], -1, None, ({}, {}))

Operators = Mapping[t.Node, Operator[Any]]


def taken(operators: Operators, stores: Mapping[str, Any], *, stream_time_ms: int) -> bytes | None:
    """All state; None if there is none."""
    _forget_windows(operators, stream_time_ms)
    found = {node.name: memory for node, operator in operators.items() if (memory := _memory(operator))}
    for name, store in stores.items():
        if isinstance(store, WindowValues | SessionValues):
            store.expire()
        found[f"store {name}"] = {
            part: _plain(value) for part, value in vars(store).items() if part in _OF_STORES
        }
    if not found and stream_time_ms < 0:
        return None
    return dumped((stream_time_ms, found))


def put_back(data: bytes, operators: Operators, stores: Mapping[str, Any]) -> int:
    """Put state into new operators, and return the stream time at which it was taken."""
    stream_time_ms: int
    stream_time_ms, found = pickle.loads(data)
    owners: dict[str, Any] = {node.name: operator for node, operator in operators.items()}
    owners |= {f"store {name}": store for name, store in stores.items()}
    for owner_name, owner in owners.items():
        for name, value in found.get(owner_name, {}).items():
            _put_back(owner, name, value)
    return stream_time_ms


def dumped(state: Any) -> bytes:
    try:
        return pickle.dumps(state, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        return pickle_by_value(state)  # for classes of a user's program, which have no module here


def _memory(operator: Operator[Any]) -> dict[str, Any]:
    """The state of an operator by attribute, without empty ones."""
    if isinstance(operator, ProcessRecords):
        own = {_TIMERS: [timer.next_ms for timer in operator.timers]} if operator.timers else {}
        if isinstance(operator, TableOperator) and (kept := operator.state.kept()):
            own["state"] = kept
        return own
    found = {name: _plain(value) for name, value in vars(operator).items() if name not in _NOT_STATE}
    return {name: value for name, value in found.items() if value not in _NOTHING}


def _plain(value: Any) -> Any:
    return value.kept() if isinstance(value, State) else value


def _put_back(owner: Any, name: str, value: Any) -> None:
    if name == _TIMERS:
        # `init` sets timers again in the same order; only their due times are stored.
        for timer, next_ms in zip(owner.timers, value, strict=False):
            timer.next_ms = next_ms
    elif isinstance(getattr(owner, name, None), State):
        getattr(owner, name).put_back(value)
    else:
        setattr(owner, name, value)


def _forget_windows(operators: Operators, stream_time_ms: int) -> None:
    for node, operator in operators.items():
        keeps_ms = _keeps_ms(node)
        if keeps_ms is None or not isinstance(operator, TableOperator):
            continue
        rows = operator.state._rows
        waiting = getattr(operator, "_waiting", {})
        expired = [place for place, row in rows.items() if row[0].end_ms < stream_time_ms - keeps_ms]
        for place in expired:
            if place not in waiting:
                _forget(operator, rows.pop(place)[0])


def _keeps_ms(node: t.Node) -> int | None:
    """How long a table keeps windows after their end; None if its keys are not windows."""
    while True:
        if isinstance(node, t.Aggregate):
            windows = node.windows
            if windows is None:
                return None
            gap_ms: int = getattr(windows, "gap_ms", 0) or getattr(windows, "difference_ms", 0)
            return windows.grace_ms + gap_ms
        if not isinstance(node, t.TableFilter | t.TableMap | t.TableTransform | t.Suppress | t.TableJoin):
            return None
        node = node.parents[0]


def _forget(operator: Any, window: Windowed[Any]) -> None:
    """State of the interpreter for a window in addition to its row."""
    if hasattr(operator, "_starts"):
        place = operator._place(window.key)
        starts = operator._starts.get(place, set())
        starts.discard(window.start_ms)
        if not starts:
            operator._starts.pop(place, None)
    if hasattr(operator, "_sessions"):
        place = operator.state.place(Windowed(window.key, 0, 0))
        sessions = operator._sessions.get(place, [])
        if window in sessions:
            sessions.remove(window)
        if not sessions:
            operator._sessions.pop(place, None)
