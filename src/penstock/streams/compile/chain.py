"""Stateless operators over whole columns: what a reading task does with each batch before Spark sees it.

`Chain` runs the operators of one place. Each takes and returns `Columns`. Records that leave the place (to a topic,
the shuffle or an internal topic) go to an `Outlet`. A function with an Arrow kernel runs as that kernel; any other
function is called once per record, and its error names the record.

Kafka Streams runs the same operators record by record. Here they run column by column, so after a split and merge the
writer restores the order: by source row, and for one row in the order of the operators. If branches split after a
flat-map this is not enough, because everything the first record of a row becomes comes before the second. There each
record carries its step (`Columns.steps`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy
import pyarrow

from penstock.streams.compile.columns import Column, Columns, Rows, as_list
from penstock.streams.compile.cut import Crossing, Entry, Place
from penstock.streams.compile.failures import OperatorFailed
from penstock.streams.compile.kernels import flattening_kernel, mapping_kernel
from penstock.streams.functions import Function, itself
from penstock.streams.interpret.stateless import pair, record_made, several
from penstock.streams.nouns import Record
from penstock.streams.topology import (
    Branch,
    Filter,
    FlatMap,
    GlobalJoin,
    Map,
    Merge,
    Node,
    Peek,
    Repartition,
    Sink,
    Split,
    ToStream,
)


class Outlet(Protocol):
    """Where records leave a place."""

    def to_sink(self, node: Sink, records: Columns) -> None: ...

    def to_domain(self, entry: Entry, records: Columns) -> None: ...

    def to_internal(self, crossing: Crossing, records: Columns) -> None: ...


class GlobalRows(Protocol):
    """Looks up a value by key."""

    def get(self, key: Any, /) -> Any: ...


class GlobalTables(Protocol):
    """The global tables of a worker."""

    def rows(self, node: Node) -> GlobalRows: ...


Failing = Callable[[OperatorFailed, int], None]
"""Called with a failure and its row. It raises, or the record is skipped."""

_TURNS = 1 << 40  # more than a flat-map makes of one batch: the high part counts visits, the low part records


class Chain:
    """The operators of one reading place, for one task."""

    def __init__(self, place: Place, outlet: Outlet, tables: GlobalTables, failing: Failing) -> None:
        self._place = place
        self._outlet = outlet
        self._tables = tables
        self._failing = failing
        self._parting = _parting(place)
        self._visits = 0

    def feed(self, node: Node, records: Columns) -> None:
        """Send the output of `node` to all its children in this place."""
        if not len(records):
            return
        for crossing in self._place.crossings.get(node, ()):
            self._outlet.to_internal(crossing, self._visited(records))
        entries = self._place.entries.get(node, ())
        for at, (child, _) in enumerate(self._place.children.get(node, ())):
            self._enter(records, [entry for entry in entries if entry.after == at])
            self._run(child, records)
        count = len(self._place.children.get(node, ()))
        self._enter(records, [entry for entry in entries if entry.after >= count])

    def _enter(self, records: Columns, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self._outlet.to_domain(entry, self._visited(records))

    def _run(self, node: Node, records: Columns) -> None:
        match node:
            case Sink():
                self._outlet.to_sink(node, self._visited(records))
            case Filter():
                self.feed(node, self._filter(node, records))
            case Map():
                self.feed(node, self._map(node, records))
            case FlatMap():
                made = self._flat_map(node, records)
                self.feed(node, self._visited(made, apart=True) if node in self._parting else made)
            case Peek():
                kept, _ = self._called(node, node.function, records)
                self.feed(node, _kept(records, kept))
            case Split():
                self._split(node, records)
            case GlobalJoin():
                self.feed(node, self._global_join(node, records))
            case ToStream():
                self.feed(node, self._to_stream(node, records))
            case Merge() | Repartition():
                self.feed(node, records)
            case _:
                raise AssertionError(f"{node} is stateful and cannot run here")

    def _visited(self, records: Columns, *, apart: bool = False) -> Columns:
        """Add steps from here on: one for all records, or one for each."""
        if not self._parting:
            return records
        self._visits += 1
        turns = numpy.full(len(records), self._visits * _TURNS, numpy.int64)
        if apart:
            turns += numpy.arange(len(records))
        return replace(records, steps=(*records.steps, turns))

    def _filter(self, node: Filter, records: Columns) -> Columns:
        kernel = _kernel(node.function, records.values)
        answers = kernel(records.values) if kernel is not None else None
        if answers is not None and pyarrow.types.is_boolean(answers.type) and not answers.null_count:
            wanted = numpy.asarray(answers)
        else:
            kept, results = self._called(node, node.function, records)
            records = _kept(records, kept)
            try:
                wanted = numpy.fromiter(map(bool, results), bool, len(results))
            except Exception:
                records, results = self._checked(node, records, results, bool)
                wanted = numpy.array(results, bool)
        return records.take(numpy.flatnonzero(wanted != node.negated))

    def _map(self, node: Map, records: Columns) -> Columns:
        if node.result == "key" and node.function.call is itself:
            return records.with_keys(records.values)
        if node.result in ("key", "value"):
            kernel = _kernel(node.function, records.values)
            made = kernel(records.values) if kernel is not None else None
            if made is not None:
                return records.with_keys(made) if node.result == "key" else records.with_values(made)
        if node.result == "record":
            return self._map_records(node, records)
        kept, results = self._called(node, node.function, records)
        records = _kept(records, kept)
        if node.result == "key":
            return records.with_keys(results)
        if node.result == "value":
            return records.with_values(results)
        if not _are_pairs(results):
            records, results = self._checked(node, records, results, lambda made: pair(made, node))
        return records.with_keys([key for key, _ in results]).with_values([value for _, value in results])

    def _map_records(self, node: Map, records: Columns) -> Columns:
        kept, results = self._called_with_records(node, records)
        records, results = self._checked(
            node, _kept(records, kept), results, lambda made: record_made(made, node)
        )
        return _of_records(records, results)

    def _flat_map(self, node: FlatMap, records: Columns) -> Columns:
        if node.result == "value" and not node.function.takes_key and _is_plain(records.values):
            assert not isinstance(records.values, list)
            kernel = flattening_kernel(node.function.call, records.values.type)
            if kernel is not None:
                flattened = kernel(records.values)
                return records.take(flattened.rows, values=flattened.values)
        kept, lists = self._called(node, node.function, records, wrap=lambda made: several(made, node))
        records = _kept(records, kept)
        items = [item for found in lists for item in found]
        if node.result == "pair" and not _are_pairs(items):
            records, lists = self._checked(
                node, records, lists, lambda found: [pair(made, node) for made in found]
            )
            items = [item for found in lists for item in found]
        places = numpy.repeat(numpy.arange(len(lists)), [len(items) for items in lists])
        if node.result == "value":
            return records.take(places, values=items)
        return records.take(places, keys=[key for key, _ in items], values=[value for _, value in items])

    def _split(self, node: Split, records: Columns) -> None:
        keys, values = as_list(records.keys), as_list(records.values)
        groups: list[list[int]] = [[] for _ in node.predicates]
        rest: list[int] = []
        for at, (key, value) in enumerate(zip(keys, values, strict=True)):
            try:
                index = next((i for i, holds in enumerate(node.predicates) if holds(key, value)), None)
            except Exception as error:
                self._failing(OperatorFailed(node.name, error), int(records.rows[at]))
                continue
            (rest if index is None else groups[index]).append(at)
        for child, _ in self._place.children.get(node, ()):
            assert isinstance(child, Branch)
            places = rest if child.index is None else groups[child.index]
            self.feed(child, records.take(numpy.array(places, numpy.int64)))

    def _global_join(self, node: GlobalJoin, records: Columns) -> Columns:
        table = self._tables.rows(node.parents[1])
        places: list[int] = []
        results: list[Any] = []
        for at, (key, value) in enumerate(zip(as_list(records.keys), as_list(records.values), strict=True)):
            if value is None:
                continue
            try:
                wanted = node.selector(key, value)
                other = None if wanted is None else table.get(wanted)
                if other is None and node.kind == "inner":
                    continue
                results.append(node.joiner(key, value, other))
                places.append(at)
            except Exception as error:
                self._failing(OperatorFailed(node.name, error), int(records.rows[at]))
        return records.take(numpy.array(places, numpy.int64), values=results)

    def _to_stream(self, node: ToStream, records: Columns) -> Columns:
        """Behind a table whose rows arrive in their current form."""
        if node.selector is None:
            return records
        kept, keys = self._called(node, node.selector, records)
        return _kept(records, kept).with_keys(keys)

    def _called(
        self, node: Node, function: Function, records: Columns, wrap: Callable[[Any], Any] | None = None
    ) -> tuple[Rows | None, list[Any]]:
        """The results of a user function for each record, and the positions of records that did not fail; None means
        all."""
        values = as_list(records.values)
        call = function.call
        if function.takes_key:
            pairs = zip(as_list(records.keys), values, strict=True)
            calls = ((lambda key=key, value=value: call(key, value)) for key, value in pairs)
            return self._each(node, calls, records, wrap)
        results: list[Any] = []
        try:
            if wrap is None:
                results.extend(map(call, values))
                if len(results) < len(values):  # a StopIteration of the function must not end `map`
                    raise StopIteration
            else:
                results.extend(wrap(call(value)) for value in values)
            return None, results
        except Exception as error:
            failed = len(results)
            self._failing(OperatorFailed(node.name, error), int(records.rows[failed]))
        rest = ((lambda value=value: call(value)) for value in values[failed + 1 :])
        return self._each(node, rest, records, wrap, results, failed + 1)

    def _called_with_records(self, node: Map, records: Columns) -> tuple[Rows | None, list[Any]]:
        made = (
            Record(key, value, time, headers)
            for key, value, time, headers in zip(
                as_list(records.keys),
                as_list(records.values),
                records.times.tolist(),
                records.header_list(),
                strict=True,
            )
        )
        call = node.function.call
        return self._each(node, ((lambda record=record: call(record)) for record in made), records)

    def _each(
        self,
        node: Node,
        calls: Any,
        records: Columns,
        wrap: Callable[[Any], Any] | None = None,
        results: list[Any] | None = None,
        start: int = 0,
    ) -> tuple[Rows | None, list[Any]]:
        results = [] if results is None else results
        places = list(range(len(results)))
        for at, call in enumerate(calls, start):
            try:
                result = call()
                results.append(result if wrap is None else wrap(result))
                places.append(at)
            except Exception as error:
                self._failing(OperatorFailed(node.name, error), int(records.rows[at]))
        return (None if len(places) == len(records) else numpy.array(places, numpy.int64)), results

    def _checked(
        self, node: Node, records: Columns, results: Sequence[Any], check: Callable[[Any], Any]
    ) -> tuple[Columns, list[Any]]:
        """The result of `check` for each record; a record for which it raises has failed."""
        made: list[Any] = []
        places: list[int] = []
        for at, result in enumerate(results):
            try:
                made.append(check(result))
                places.append(at)
            except Exception as error:
                self._failing(OperatorFailed(node.name, error), int(records.rows[at]))
        return (
            records if len(made) == len(records) else records.take(numpy.array(places, numpy.int64))
        ), made


def _parting(place: Place) -> set[Node]:
    """Flat-maps after which records leave on more than one branch."""

    def ways(node: Node) -> int:
        here = len(place.entries.get(node, ())) + len(place.crossings.get(node, ()))
        children = (child for child, _ in place.children.get(node, ()))
        return here + sum(1 if isinstance(child, Sink) else ways(child) for child in children)

    return {node for node in place.nodes if isinstance(node, FlatMap) and ways(node) > 1}


def _kept(records: Columns, places: Rows | None) -> Columns:
    return records if places is None else records.take(places)


def _is_plain(column: Column) -> bool:
    """A column for kernels, without nulls: a user function may reject None, which a kernel would not."""
    return not isinstance(column, list) and not column.null_count


def _kernel(function: Function, column: Column) -> Callable[[Any], Any] | None:
    if function.takes_key or not _is_plain(column):
        return None
    assert not isinstance(column, list)
    return mapping_kernel(function.call, column.type)


def _are_pairs(results: Sequence[Any]) -> bool:
    """Whether all elements are certainly pairs; without a Python call per element."""
    return set(map(type, results)) <= {tuple} and set(map(len, results)) <= {2}


def _of_records(records: Columns, made: Sequence[Record[Any, Any]]) -> Columns:
    """Records made by the user, one for each of these."""
    has_headers = any(record.headers for record in made)
    return Columns(
        [record.key for record in made],
        [record.value for record in made],
        records.rows,
        numpy.fromiter((record.timestamp_ms for record in made), numpy.int64, len(made)),
        [record.headers for record in made] if has_headers else None,
        records.steps,
    )
