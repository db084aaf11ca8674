"""From reading tasks to buckets: what passes through Spark's shuffle.

A row is (domain, bucket, cell, at). A cell is a pack of records of one range that belong to one bucket, in order; or
rows of partial results, for a domain that is a fold; or output that bypasses state (domain `PASS`). Spark moves a few
hundred cells per batch, however many records there are.

`at` is the greatest event time in the cell, for Spark's watermark; see `stateful`.
"""

from __future__ import annotations

import pickle
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

import numpy
import pyarrow

from penstock.streams.compile import exchange
from penstock.streams.compile.columns import Columns, Rows, as_list
from penstock.streams.compile.cut import Entry, Place, Stage
from penstock.streams.compile.failures import OperatorFailed
from penstock.streams.compile.folds import (
    Fold,
    cell_of_rows,
    fold_of,
    fold_records,
    fold_rows,
    split_by_bucket,
)
from penstock.streams.compile.memory import dumped
from penstock.streams.compile.ordering import Part, stacked, turns_of
from penstock.streams.compile.outputs import cell_of, encoded
from penstock.streams.compile.pages import BUCKETS, places_of
from penstock.streams.compile.tasks import Program, ReadingTask, written
from penstock.streams.nouns import Headers, Record
from penstock.streams.serdes import Serde, SessionWindowed, TimeWindowed
from penstock.streams.topology import Aggregate, Node
from penstock.streams.windows import TimeWindows

SCHEMA = pyarrow.schema(
    [
        ("domain", pyarrow.int32()),
        ("bucket", pyarrow.int32()),
        ("cell", pyarrow.binary()),
        ("at", pyarrow.timestamp("us", tz="UTC")),
    ]
)
SPARK_SCHEMA = "domain int, bucket int, cell binary, at timestamp"

PASS = -1

# Event time is shifted by a century, and so is the watermark's delay: see `stateful`.
SHIFT_MS = 36_500 * 24 * 3600 * 1000
LATEST_MS = 6_000_000_000_000  # the year 2160: a later time, shifted, would not fit into nanoseconds

RECORDS_MAX = 200_000  # records in the packs of one task; then they are sent, so that memory stays bounded
FOLDED_KEYS_MAX = 1_000_000

_PLAIN = (str, bytes, int, float, bool)

Decode = Callable[[Any], Any]


Packed: TypeAlias = tuple[int, int, int, Any, Any, int, Headers, int]
"""A record in a pack: (place, entry, offset, key, value, timestamp_ms, headers, latest_ms). `place` determines bucket
and page, `entry` the operator and its input, `latest_ms` is the latest time of its partition in the batch so far. A
plain tuple, because pickling a named one takes four times as long."""
OFFSET, _TIMESTAMP, LATEST = 2, 5, 7

_PASSED_FROM = struct.Struct(">iq")
"""Precedes output that bypasses state: partition and offset, by which cells are ordered again."""


class Pack(NamedTuple):
    """The records of one partition, in order."""

    topic: str
    partition: int
    records: list[Packed]


def folds_of(stage: Stage, program: Program) -> dict[Place, tuple[Aggregate, Fold]]:
    """The domains of a stage that are folds."""
    found: dict[Place, tuple[Aggregate, Fold]] = {}
    if program.caches:
        for domain in stage.domains:
            entered: set[Node] = {entry.child for entry in stage.entries if entry.domain is domain}
            fold = fold_of(domain, entered)
            if fold is not None:
                found[domain] = fold
    return found


class ShufflingTask(ReadingTask):
    """Reads, and packs records for domains."""

    def __init__(self, program: Program, stage: Stage) -> None:
        super().__init__(program, stage)
        self._numbers = {entry: number for number, entry in enumerate(stage.entries)}
        self._domains = {domain: domain_number(domain) for domain in stage.domains}
        self._folds = folds_of(stage, program)
        self._exchanges = exchange.is_needed(stage)

    def __call__(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        self._packs: dict[tuple[int, int], list[Packed]] = defaultdict(list)
        self._packed = 0
        self._rows: dict[Place, list[pyarrow.RecordBatch]] = defaultdict(list)
        self._folded = 0
        self._reached: dict[Place, int] = {}
        self._parted: list[tuple[tuple[Rows, ...], int, list[Packed]]] = []
        """Records after flat-maps with several branches: packed when the whole batch is complete."""
        return super().__call__(batches)

    def begin(self, place: Place, records: Columns) -> None:
        times = numpy.full(self.origin.batch.num_rows, self._reached.get(place, -1))
        times[records.rows] = numpy.maximum(times[records.rows], records.times)
        self._latest = numpy.maximum.accumulate(times)
        self._reached[place] = int(self._latest[-1])

    def to_domain(self, entry: Entry, records: Columns) -> None:
        written(lambda some: self._to_domain(entry, some), records, self._failed)

    def _to_domain(self, entry: Entry, records: Columns) -> None:
        serde = None if self._is_raw(entry) else entry.parent.key
        keys = encoded(placing_serde(serde), placing_keys(serde, records.keys), entry.child.name)
        fold = self._folds.get(entry.domain)
        if fold is None:
            self._pack(entry, keys, records)
            return
        windows = fold[0].windows
        assert windows is None or isinstance(windows, TimeWindows)
        try:
            rows = fold_records(fold[1], keys, records, windows)
        except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise OperatorFailed(entry.child.name, error) from error  # the value is not a number
        self._rows[entry.domain].append(rows)
        self._folded += rows.num_rows

    def results(self) -> Iterator[pyarrow.RecordBatch]:
        self._join_parted()
        if self._packed > RECORDS_MAX:
            yield from self._taken_packs()
        if self._folded > FOLDED_KEYS_MAX:
            yield from self._taken_rows()
        parts = self.output.taken_parts()
        if parts:
            yield _batch([(PASS, bucket, cell, 0) for bucket, cell in self._passed_on(parts)])

    def _passed_on(self, parts: list[Part]) -> Iterator[tuple[int, bytes]]:
        """Output, and the bucket that forwards it: one for each partition, or where other places write the same
        topic."""
        origin = self.origin
        head = _PASSED_FROM.pack(origin.partition, origin.offset(0))
        if not self._exchanges:
            yield origin.partition % BUCKETS, head + cell_of(part.batch for part in parts)
            return
        offsets = numpy.asarray(origin.batch.column("offset"))
        caused = [
            exchange.caused_by_records(part, self._latest, origin.topic, origin.partition, offsets)
            for part in parts
        ]
        for target, cell in exchange.cells_of(caused):
            yield target, head + cell

    def finish(self) -> Iterator[pyarrow.RecordBatch]:
        yield from self._taken_packs()
        yield from self._taken_rows()

    def _pack(self, entry: Entry, keys: pyarrow.Array, records: Columns) -> None:
        number, domain = self._numbers[entry], self._domains[entry.domain]
        is_raw = self._is_raw(entry)
        offsets = numpy.asarray(self.origin.batch.column("offset"))
        packed: Iterator[Packed] = zip(
            places_of(keys.to_pylist()),
            repeat(number, len(records)),
            offsets[records.rows].tolist(),
            _sent(None if is_raw else entry.parent.key, records.keys, entry.child.name),
            _sent(None if is_raw else entry.parent.value, records.values, entry.child.name),
            records.times.tolist(),
            records.header_list(),
            self._latest[records.rows].tolist(),
            strict=True,
        )
        self._packed += len(records)
        if records.steps:
            self._parted.append(((records.rows, *records.steps), domain, list(packed)))
            return
        packs = self._packs
        for record in packed:
            packs[domain, record[0] % BUCKETS].append(record)

    def _join_parted(self) -> None:
        if not self._parted:
            return
        orders, domains, parts = zip(*self._parted, strict=True)
        self._parted = []
        found = [(domain, one) for domain, part in zip(domains, parts, strict=True) for one in part]
        turns = turns_of(stacked(orders, [len(part) for part in parts]))
        for domain, record in found if turns is None else (found[turn] for turn in turns.tolist()):
            self._packs[domain, record[0] % BUCKETS].append(record)

    def _taken_packs(self) -> Iterator[pyarrow.RecordBatch]:
        if not self._packs:
            return
        origin = self.origin
        rows = []
        for (domain, bucket), records in self._packs.items():
            # Several entries may have been filled one after the other; a partition has one order.
            records.sort(key=itemgetter(OFFSET))
            latest_ms = max(map(itemgetter(_TIMESTAMP), records))
            rows.append(
                (domain, bucket, self._cell(Pack(origin.topic, origin.partition, records)), latest_ms)
            )
        self._packs, self._packed = defaultdict(list), 0
        yield _batch(rows)

    def _cell(self, pack: Pack) -> bytes:
        try:
            return dumped(tuple(pack))
        except Exception:
            for packed in pack.records:  # find out which of them cannot be pickled
                try:
                    dumped(packed)
                except Exception as error:
                    _, entry, offset, key, *_ = packed
                    failure = OperatorFailed(self.stage.entries[entry].child.name, error)
                    raise failure.of(key).at(pack.topic, pack.partition, offset) from error
            raise

    def _taken_rows(self) -> Iterator[pyarrow.RecordBatch]:
        found, self._rows, self._folded = self._rows, defaultdict(list), 0
        for domain, parts in found.items():
            node, fold = self._folds[domain]
            assert node.windows is None or isinstance(node.windows, TimeWindows)
            whole = fold_rows(fold, parts)
            if whole.num_rows:
                latest_ms = max(whole.column("at").to_pylist())
                yield _batch(
                    [
                        (self._domains[domain], bucket, cell_of_rows([rows]), latest_ms)
                        for bucket, rows in split_by_bucket(whole, node.windows)
                    ]
                )

    def _is_raw(self, entry: Entry) -> bool:
        return is_raw(self.stage, entry)


def domain_number(domain: Place) -> int:
    """From its name, so that state finds its domain when others are added or removed."""
    return crc32(domain.name.encode()) >> 1


def is_raw(stage: Stage, entry: Entry) -> bool:
    """Whether the records of an entry are messages between halves of an operator: bytes that only it can read."""
    return any(
        entry is found
        for place in stage.reading
        if place.crossing is not None and place.crossing.kind != "stream"
        for entries in place.entries.values()
        for found in entries
    )


def unpacked(cells: Iterable[bytes]) -> list[tuple[Pack, Packed]]:
    """Merge the records of several packs: each partition in order, and between partitions the one whose next record
    is earliest, as in Kafka Streams. This is the order of their causes (`exchange`)."""
    packs = [Pack(*pickle.loads(cell)) for cell in cells]
    packs.sort(key=lambda pack: (exchange.topic_number(pack.topic), pack.partition, pack.records[0][OFFSET]))
    found = [(pack, record) for pack in packs for record in pack.records]
    if len({(pack.topic, pack.partition) for pack in packs}) > 1:
        found.sort(key=lambda one: one[1][LATEST])
    return found


def passed(cells: Iterable[bytes]) -> list[bytes]:
    """Output that bypasses state, of each partition in order."""
    return [
        cell[_PASSED_FROM.size :] for cell in sorted(cells, key=lambda cell: _PASSED_FROM.unpack_from(cell))
    ]


def record_of(packed: Packed, decode_key: Decode | None, decode_value: Decode | None) -> Record[Any, Any]:
    """The record of a pack, by `decoders_of` its entry."""
    _, _, _, key, value, timestamp_ms, headers, _ = packed
    if decode_key is not None:
        key = decode_key(key)
    if decode_value is not None:
        value = decode_value(value)
    return Record(key, value, timestamp_ms, headers)


def decoders_of(entry: Entry, *, raw: bool) -> tuple[Decode | None, Decode | None]:
    """How keys and values of an entry are decoded; None if they are not encoded."""
    if raw:
        return None, None
    key, value = entry.parent.key, entry.parent.value
    return (
        None if key is None or _is_plain(key) else key.decode,
        None if value is None or _is_plain(value) else value.decode,
    )


def placing_serde(serde: Serde[Any] | None) -> Serde[Any] | None:
    """The windows of a key are stored where the key is."""
    return serde.inner if isinstance(serde, TimeWindowed | SessionWindowed) else serde


def placing_keys(serde: Serde[Any] | None, keys: Any) -> Any:
    if isinstance(serde, TimeWindowed | SessionWindowed):
        return [None if key is None else key.key for key in as_list(keys)]
    return keys


def _is_plain(serde: Serde[Any] | None) -> bool:
    return serde is None or serde.spec in _PLAIN


def _sent(serde: Serde[Any] | None, column: Any, operator: str) -> list[Any]:
    """Python values where they are as good as bytes; instances of user classes are sent as bytes of their serde."""
    values = as_list(column)
    if serde is None or _is_plain(serde):
        return values
    try:
        return [serde.encode(value) for value in values]
    except Exception as error:
        raise OperatorFailed(operator, error) from error


def _batch(rows: list[tuple[int, int, bytes, int]]) -> pyarrow.RecordBatch:
    domains, buckets, cells, times = zip(*rows, strict=True)
    shifted_us = [(min(max(time_ms, 0), LATEST_MS) + SHIFT_MS) * 1000 for time_ms in times]
    return pyarrow.RecordBatch.from_arrays(
        [
            pyarrow.array(domains, pyarrow.int32()),
            pyarrow.array(buckets, pyarrow.int32()),
            pyarrow.array(cells, pyarrow.binary()),
            pyarrow.array(shifted_us, pyarrow.int64()).cast(pyarrow.timestamp("us", tz="UTC")),
        ],
        schema=SCHEMA,
    )
