"""Counts, sums, minima and maxima as folds of Arrow columns: no Python per record or key.

    reading task:   records -> (key, partial result, time), one row for each key of the range
    bucket:         a page of old rows, and rows of the batch -> a page of new rows, and the changed rows

Partial results are combined by the same fold, except counts, which are added. In windows of fixed size the key of a
row is the windowed key: the key's bytes, then the window start. The result must equal the interpreter's last update
of each key in a batch.
"""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal
from zlib import crc32  # of `pages.place_of`; no key is None here

import numpy
import pyarrow
import pyarrow.compute

from penstock.streams.compile.columns import Columns, Rows
from penstock.streams.compile.cut import Place
from penstock.streams.compile.pages import BUCKETS, META, Pages
from penstock.streams.topology import STATEFUL, Aggregate, Node, ToStream
from penstock.streams.windows import TimeWindows

Fold = Literal["count", "sum", "min", "max"]
Adopt = Callable[["bytes | None"], "bytes | None"]

ROWS = pyarrow.schema([("key", pyarrow.binary()), ("partial", pyarrow.int64()), ("at", pyarrow.int64())])

KEYS_PER_PAGE = 2_000  # a page is read and written as a whole: about 50 kB, in well under a millisecond


def fold_of(domain: Place, entered: set[Node]) -> tuple[Aggregate, Fold] | None:
    """The only state of a domain and its fold; None if Arrow cannot compute it."""
    if len(entered) != 1:
        return None
    (node,) = entered
    if not isinstance(node, Aggregate) or any(
        isinstance(o, STATEFUL) and o is not node for o in domain.nodes
    ):
        return None
    # No operator behind the table may need the old value.
    children = domain.children.get(node, ())
    if domain.crossings.get(node) or not all(isinstance(child, ToStream) for child, _ in children):
        return None
    fold = _known(node)
    return None if fold is None else (node, fold)


def _known(node: Aggregate) -> Fold | None:
    is_fixed = node.windows is None or (isinstance(node.windows, TimeWindows) and node.emit == "update")
    if not is_fixed or len(node.parents) != 1:
        return None
    if node.kind == "count":
        return "count"
    # Integers only: sums of floats depend on the order, and text has no sum.
    serde = node.parents[0].value
    if serde is None or serde.spec is not int or node.value is None or node.value.spec is not int:
        return None
    function = node.folds[0]
    if function.takes_key:
        return None
    if node.kind == "reduce":
        known: dict[Any, Fold] = {operator.add: "sum", min: "min", max: "max"}
        return known.get(function.call)
    return "sum" if node.initial is int and function.call is operator.add else None


def fold_records(
    fold: Fold, keys: pyarrow.Array, records: Columns, windows: TimeWindows | None = None
) -> pyarrow.RecordBatch:
    """Rows from records; records with a None key or value do not count. `keys` are bytes."""
    values = records.values
    if keys.null_count or isinstance(values, list) or values.null_count:
        records, keys = _complete(records, keys)
    if windows is not None:
        records, keys = _in_windows(records, keys, windows)
    numbers = None
    if fold != "count":
        numbers = numpy.asarray(pyarrow.array(records.values, pyarrow.int64()))
    return _folded(fold, keys, numbers, records.times)


def fold_rows(fold: Fold, parts: Iterable[pyarrow.RecordBatch]) -> pyarrow.RecordBatch:
    """Combine rows, with keys in the order of first occurrence."""
    whole = pyarrow.Table.from_batches(parts, schema=ROWS)
    key, partial, at = (_one(whole.column(name)) for name in ROWS.names)
    return _folded("sum" if fold == "count" else fold, key, numpy.asarray(partial), numpy.asarray(at))


def split_by_bucket(
    rows: pyarrow.RecordBatch, windows: TimeWindows | None = None
) -> Iterator[tuple[int, pyarrow.RecordBatch]]:
    return _split(rows, lambda place: place % BUCKETS, windows)


class FoldBucket:
    """The state of one bucket of a fold, and how a batch changes it.

    The number of pages doubles when there are too many keys; the page of a key is its place modulo their number.
    Windows that are closed at `stream_time_ms` take no more rows and are deleted some time later. `adopt` gets the
    meta page and converts state that is not a fold's.
    """

    def __init__(
        self,
        fold: Fold,
        pages: Pages,
        windows: TimeWindows | None = None,
        *,
        stream_time_ms: int = -1,
        adopt: Adopt | None = None,
    ) -> None:
        self._fold: Fold = fold
        self._pages = pages
        self._windows = windows
        self._stream_time_ms = stream_time_ms
        self._page_count: int = 1
        self._key_count: int = 0
        self.forgets_at_ms: int | None = None
        """The stream time at which there may be windows to delete."""
        self._meta = pages.read(META)
        if adopt is not None:
            self._meta = adopt(self._meta)
        if self._meta is not None:
            self._page_count, self._key_count, self.forgets_at_ms = pickle.loads(self._meta)

    def update(self, parts: Iterable[pyarrow.RecordBatch]) -> list[pyarrow.RecordBatch]:
        """Fold rows in, and return the changed rows with their new values."""
        news = self._open(fold_rows(self._fold, parts))
        changed: list[pyarrow.RecordBatch] = []
        for page, part in self._by_page(news, self._page_count):
            old = self._read(page)
            whole = part if old is None else fold_rows(self._fold, [old, part])
            self._write(page, whole)
            changed.append(part if old is None else _rows_of(whole, part.column("key")))
            self._key_count += whole.num_rows - (0 if old is None else old.num_rows)
        self._grow()
        self.forget()
        return changed

    def forget(self) -> None:
        """Delete closed windows if it is time to, and store the number of pages and keys."""
        windows = self._windows
        if windows is not None and self._key_count:
            lasts_ms = windows.size_ms + windows.grace_ms
            if self.forgets_at_ms is None:
                self.forgets_at_ms = max(self._stream_time_ms, 0) + lasts_ms
            elif self.forgets_at_ms <= self._stream_time_ms:
                self._forget_closed()
                self.forgets_at_ms = self._stream_time_ms + lasts_ms if self._key_count else None
        meta = pickle.dumps((self._page_count, self._key_count, self.forgets_at_ms))
        if meta != self._meta:
            self._pages.write(META, meta)

    def _forget_closed(self) -> None:
        for page in range(self._page_count):
            rows = self._read(page)
            if rows is None:
                continue
            kept = self._open(rows)
            self._key_count -= rows.num_rows - kept.num_rows
            if not kept.num_rows:
                self._pages.write(page, None)
            elif kept.num_rows < rows.num_rows:
                self._write(page, kept)

    def _open(self, rows: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """The rows whose windows may still change."""
        if self._windows is None or not rows.num_rows:
            return rows
        starts = pyarrow.compute.binary_slice(rows.column("key"), -8).cast(pyarrow.binary(8))
        first = numpy.frombuffer(starts.buffers()[1], ">i8", len(starts), starts.offset * 8)
        is_open = first + self._windows.size_ms > self._stream_time_ms - self._windows.grace_ms
        return rows if is_open.all() else rows.take(pyarrow.array(numpy.flatnonzero(is_open)))

    def _grow(self) -> None:
        while self._key_count > self._page_count * KEYS_PER_PAGE:
            for page in range(self._page_count):
                rows = self._read(page)
                if rows is None:
                    continue
                self._pages.write(page, None)
                for number, part in self._by_page(rows, 2 * self._page_count):
                    self._write(number, part)
            self._page_count *= 2

    def _by_page(self, rows: pyarrow.RecordBatch, count: int) -> Iterator[tuple[int, pyarrow.RecordBatch]]:
        return _split(rows, lambda place: place // BUCKETS % count, self._windows)

    def _read(self, page: int) -> pyarrow.RecordBatch | None:
        data = self._pages.read(page)
        return None if data is None else next(rows_of_cell(data))

    def _write(self, page: int, rows: pyarrow.RecordBatch) -> None:
        self._pages.write(page, cell_of_rows([rows]))


def cell_of_rows(batches: Iterable[pyarrow.RecordBatch]) -> bytes:
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, ROWS) as writer:
        for batch in batches:
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def rows_of_cell(cell: bytes) -> Iterator[pyarrow.RecordBatch]:
    with pyarrow.ipc.open_stream(cell) as reader:
        yield from reader


def _folded(fold: Fold, keys: pyarrow.Array, numbers: Any, times: Any) -> pyarrow.RecordBatch:
    """One row for each key. Uses codes and arrays, because Arrow's group_by of two columns hashes them row by row."""
    coded = keys.dictionary_encode()
    places = numpy.asarray(coded.indices)
    count = len(coded.dictionary)
    at = numpy.full(count, -1, numpy.int64)
    numpy.maximum.at(at, places, times)
    if fold == "count":
        partial = numpy.bincount(places, minlength=count).astype(numpy.int64)
    elif fold == "sum":
        partial = numpy.zeros(count, numpy.int64)
        numpy.add.at(partial, places, numbers)
    else:
        partial = numpy.zeros(count, numpy.int64)
        partial[places] = numbers
        (numpy.minimum if fold == "min" else numpy.maximum).at(partial, places, numbers)
    columns = [coded.dictionary, pyarrow.array(partial), pyarrow.array(at)]
    return pyarrow.RecordBatch.from_arrays(columns, schema=ROWS)


def _rows_of(whole: pyarrow.RecordBatch, keys: pyarrow.Array) -> pyarrow.RecordBatch:
    places = pyarrow.compute.index_in(keys, value_set=whole.column("key"))
    return whole.take(places)


def _complete(records: Columns, keys: pyarrow.Array) -> tuple[Columns, pyarrow.Array]:
    values = records.values
    has_value = (
        numpy.fromiter((value is not None for value in values), bool, len(values))
        if isinstance(values, list)
        else numpy.asarray(values.is_valid())
    )
    places = numpy.flatnonzero(numpy.asarray(keys.is_valid()) & has_value)
    return records.take(places), keys.take(pyarrow.array(places))


def _in_windows(records: Columns, keys: pyarrow.Array, windows: TimeWindows) -> tuple[Columns, pyarrow.Array]:
    """Repeat each record for every window that contains its time, under the window's key."""
    times = records.times
    places: list[Rows] = []
    starts: list[Rows] = []
    latest = times // windows.advance_ms * windows.advance_ms
    for back_ms in range(0, windows.size_ms, windows.advance_ms):
        start = latest - back_ms
        held = numpy.flatnonzero((start >= 0) & (start + windows.size_ms > times))
        places.append(held)
        starts.append(start[held])
    all_places, all_starts = numpy.concatenate(places), numpy.concatenate(starts)
    data = pyarrow.py_buffer(all_starts.astype(">i8"))
    column = pyarrow.Array.from_buffers(pyarrow.binary(8), len(all_starts), [None, data]).cast(
        pyarrow.binary()
    )
    taken = keys.take(pyarrow.array(all_places))
    return records.take(all_places), pyarrow.compute.binary_join_element_wise(taken, column, b"")


def _split(
    rows: pyarrow.RecordBatch, part_of: Any, windows: TimeWindows | None
) -> Iterator[tuple[int, pyarrow.RecordBatch]]:
    """Split rows by a function of their keys' places. The windows of a key are stored where the key is."""
    if not rows.num_rows:
        return
    keys = rows.column("key")
    if windows is not None:
        keys = pyarrow.compute.binary_slice(keys, 0, -8)
    places = numpy.fromiter(map(crc32, keys.to_pylist()), numpy.int64, rows.num_rows)
    parts = part_of(places)
    order = numpy.argsort(parts, kind="stable")
    sorted_parts = parts[order]
    bounds = numpy.flatnonzero(numpy.diff(sorted_parts)) + 1
    taken = rows.take(pyarrow.array(order))
    starts = [0, *bounds.tolist()]
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        yield int(sorted_parts[start]), taken.slice(start, end - start)


def _one(column: pyarrow.ChunkedArray) -> pyarrow.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
