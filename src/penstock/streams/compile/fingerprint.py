"""What a checkpoint depends on: the stages, their inputs and their states. Sans-IO.

State is found by names: a stage's folder by the stage, a bucket by its domain, the content of a page by its operator.
A program that uses one of these names for something else, or another name for the same thing, would silently continue
with wrong state or none. So the fingerprint of a program is stored with its checkpoints, and differences are reported
before anything runs.

Allowed changes: functions; stateless operators; sinks; new states and streams; streams whose topic is no longer read.
A new state starts empty, as in Kafka Streams.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from penstock.streams import topology as t
from penstock.streams.compile.cut import Place, Stage
from penstock.streams.compile.pages import BUCKETS
from penstock.streams.functions import Function
from penstock.streams.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows

if TYPE_CHECKING:
    from penstock.streams.compile.stateful import Domains

Fingerprint = dict[str, Any]
"""As stored: JSON."""

ANY = "any"
_DERIVED = "a table made of another"
_COUNTED = re.compile(r".+-\d+")  # a generated name, as `dsl.graph` makes them


@dataclass(frozen=True, slots=True)
class _Field:
    """A property that must not change, and its description."""

    name: str
    template: str


_FIELDS = (
    _Field("stage", "ran in the stage {}"),
    _Field("domain", "was stored together with {}"),
    _Field("kind", "was {}"),
    _Field("key", "had keys of {}"),
    _Field("value", "had values of {}"),
    _Field("pages", "was stored in {} pages"),
)


def fingerprint_of(stages: Iterable[tuple[Stage, Domains | None]]) -> Fingerprint:
    """The fingerprint of all stages; stages without state have no domains."""
    found: dict[str, Any] = {}
    states: dict[str, Any] = {}
    for stage, domains in stages:
        found[stage.name] = {
            "topics": sorted({topic for source in stage.sources for topic in source.topics}),
            "patterns": sorted(source.pattern for source in stage.sources if source.pattern is not None),
            "repartition": {
                place.crossing.topic: _types(place.crossing.parent)
                for place in stage.reading
                if place.crossing is not None
            },
            "time": None if domains is None else domains.time_mode,
        }
        if domains is not None:
            for domain in stage.domains:
                states |= dict(_states(stage, domains, domain))
    return {"version": 1, "buckets": BUCKETS, "stages": found, "states": states}


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The differences that make the checkpoints of one program useless to the other, for users; empty if they fit."""
    if old.get("version") != new["version"]:
        return ["its checkpoint was written by another version of Penstock, with another fingerprint format"]
    changes: list[str] = []
    if old["buckets"] != new["buckets"]:
        changes.append(f"state was stored in {old['buckets']} buckets, now in {new['buckets']}")
    given_up = set()
    for name, stage in old["stages"].items():
        found = list(_changes_of_stage(name, stage, old["stages"], new["stages"]))
        changes += found
        if name not in new["stages"] and not found:
            given_up.add(name)
    added = set(new["states"]) - set(old["states"])
    for name, state in old["states"].items():
        now = new["states"].get(name)
        if now is None and (state["stage"] in given_up or state["kind"] == _DERIVED):
            continue  # its inputs are no longer read, or it is derived from a table that still exists
        changes += _changes_of_state(name, state, now, added)
    return changes


def following(old: Mapping[str, Any], new: Fingerprint) -> Fingerprint:
    """The fingerprint to store for a program that follows another one. A fold that was stored in pages may still have
    some in buckets that were not touched since, so their number stays recorded."""
    states = {}
    for name, state in new["states"].items():
        before = old["states"].get(name, {})
        pages = before.get("pages_before", before.get("pages", ANY))
        is_noted = state["pages"] == ANY and pages != ANY
        states[name] = state | {"pages_before": pages} if is_noted else state
    return new | {"states": states}


def refusal(application_id: str, folder: str, changes: list[str]) -> str:
    """The message for users."""
    lines = "\n".join(f"- {change}" for change in changes)
    return (
        f"{application_id} does not match its checkpoint in {folder}:\n{lines}\n"
        "Keep the names and kinds of stateful operators (give tables a name=...), or use another application.id, "
        "which starts from scratch."
    )


def _changes_of_stage(
    name: str, stage: Mapping[str, Any], old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[str]:
    now = new.get(name)
    for part in ("topics", "patterns", "repartition"):
        for topic in stage[part]:
            before, after = (
                {other for other, found in stages.items() if topic in found[part]} for stages in (old, new)
            )
            readers = sorted(after - before)
            if readers and name not in after:
                yield (
                    f"{topic} was read by the stage {name} and is now read by {', '.join(readers)}, which has no "
                    "offsets for it"
                )
    if now is None:
        return
    for topic, types in stage["repartition"].items():
        if topic not in now["repartition"]:
            yield f"the repartition topic {topic} no longer exists, so its unread records would be lost"
        elif now["repartition"][topic] != types:
            yield f"the repartition topic {topic} contained {types} and would contain {now['repartition'][topic]}"
    if None not in (stage["time"], now["time"]) and stage["time"] != now["time"]:
        yield f"the stage {name} used {_clock(stage['time'])} and would use {_clock(now['time'])}"


def _changes_of_state(
    name: str, state: Mapping[str, Any], now: Mapping[str, Any] | None, added: set[str]
) -> Iterator[str]:
    if now is None:
        new = f"; new: {', '.join(sorted(added))}" if added else ""
        yield f"the state {name} ({state['kind']}) was removed or renamed{new}"
        return
    for field in _FIELDS:
        before, after = state[field.name], now[field.name]
        if field.name == "pages":
            before = state.get("pages_before", before)
            if ANY in (before, after):
                continue
        if before != after:
            yield f"the state {name} {field.template.format(before)}, now {after}"
    namesakes = {other for other in added if _stem(other) == _stem(name)}
    if _COUNTED.fullmatch(name) and namesakes and state["way"] != now["way"]:
        yield (
            f"the state {name} is computed differently, and {', '.join(sorted(namesakes))} is new: it is not clear "
            "which of them is the old one; give both a name"
        )


def _states(stage: Stage, domains: Domains, domain: Place) -> Iterator[tuple[str, dict[str, Any]]]:
    # The number of a fold's pages adapts, and `forms` converts between both forms.
    pages = ANY if domain in domains.folds else str(domains.page_count(domain))
    common = {"stage": stage.name, "domain": domain.name, "pages": pages}
    for node in domains.operators[domain]:
        if isinstance(node, t.Process):
            for store in node.stores:
                window = "" if store.window_ms is None else f" of {store.window_ms} ms"
                own = {
                    "kind": f"a {store.kind} store{window}",
                    "key": store.key.name,
                    "value": store.value.name,
                }
                yield f"store {store.name}", {**common, **own, "way": ""}
        kind = _kind(node)
        if kind is not None:
            own = {"kind": kind, "key": _name(node.key), "value": _name(node.value), "way": _way(node)}
            yield node.name, common | own


def _kind(node: t.Node) -> str | None:
    """The state of an operator; None if it has none."""
    match node:
        case t.Aggregate():
            description = f"a {node.kind}{'' if node.windows is None else f' in {_windows(node.windows)}'}"
            return f"{description}, emitted when closed" if node.emit == "close" else description
        case t.TableAggregate():
            return f"a {node.kind} of a table of {_name(node.selected)}"
        case t.StreamTableJoin():
            return None if node.grace_ms is None else "a join with a grace period"
        case t.TableTransform():
            return "a transformed table"
        case t.Process():
            return "a processor"
        case t.ToTable():
            return "a table" if node.history_ms is None else "a versioned table"
        case t.TableFilter() | t.TableMap():
            return _DERIVED if node.store is None else "a table made of another, with a name"
        case t.Suppress():
            return "a suppression"
        case t.StreamJoin():
            return "a join of streams"
        case t.TableJoin():
            return "a join of tables"
        case t.ForeignKeyJoin():
            return "a join by foreign key"
        case _:
            return None


def _windows(windows: Windows) -> str:
    """The shape of windows; the grace period may change."""
    match windows:
        case TimeWindows():
            return f"windows of {windows.size_ms} ms every {windows.advance_ms} ms"
        case SlidingWindows():
            return f"sliding windows of {windows.difference_ms} ms"
        case SessionWindows():
            return f"sessions with gaps of {windows.gap_ms} ms"
        case UnlimitedWindows():
            return f"the window from {windows.start_ms} ms on"


def _way(node: t.Node) -> str:
    """A digest of how a node is computed: the operators before it and their functions."""
    mark = blake2b(digest_size=8)
    for step in _steps(node):
        mark.update(repr(step).encode())
    return mark.hexdigest()


def _steps(node: t.Node) -> Iterator[Any]:
    yield type(node).__name__, getattr(node, "topics", None)
    for field in fields(node):
        found = getattr(node, field.name)
        for function in found if isinstance(found, tuple) else (found,):
            if isinstance(function, Function):
                yield field.name, _code(function.call)
    for parent in node.parents:
        yield from _steps(parent)


def _code(call: Any) -> Any:
    """The code of a function, as far as it can be seen, without its location."""
    while isinstance(call, partial):
        call = call.func
    code = getattr(call, "__code__", None)
    if code is None:
        return getattr(call, "__qualname__", type(call).__qualname__)
    plain = [const for const in code.co_consts if not hasattr(const, "co_code")]
    return code.co_code, code.co_names, repr(plain)


def _types(node: t.Node) -> str:
    return f"{_name(node.key)}: {_name(node.value)}"


def _name(serde: Any) -> str:
    return "bytes" if serde is None else str(serde.name)


def _stem(name: str) -> str:
    return name.rpartition("-")[0]


def _clock(mode: str) -> str:
    return {"EventTime": "event time", "ProcessingTime": "wall-clock time"}.get(mode, "no clock")
