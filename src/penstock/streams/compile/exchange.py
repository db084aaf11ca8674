"""Where records of one key are written by many: they are brought together by it once more, and put in order.

Buckets of state work side by side, each on its own keys. As long as a key stays what it was, all that is written of it
comes of one bucket, in order. Where it changes behind state, or where a topic is written past state too, it comes of
several; so it goes through one more shuffle, and the task that writes it puts it in the order of the records that
caused it, as in Kafka Streams, where one task has all keys of a partition.

Causes that all agree on are (phase, time, topic, partition, offset, place). A record's time is the latest that its
partition has shown up to there: it never falls while offsets rise, so each partition keeps its order, and between
partitions it is the one whose next record is the earliest. What of one record goes past state comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Protocol
from zlib import crc32

import numpy
import pyarrow

from penstock.streams.compile.caching import NOWHERE, At
from penstock.streams.compile.columns import Rows
from penstock.streams.compile.cut import Place, Stage
from penstock.streams.compile.ordering import Cause, Part, turns_of
from penstock.streams.compile.outputs import SCHEMA, Output, PartitionCount, batches_of, cell_of
from penstock.streams.topology import FlatMap, Map, Node, Process, Sink, ToStream

AWOKEN, RECEIVED, HELD_BACK = range(3)
"""Phases of a batch: what was due before its records, what came of each of them, what waited for its end."""

TARGETS = 16  # so many cells of a bucket at most, and of tasks that can write at a time

_CAUSES = [
    pyarrow.field(name, pyarrow.int64()) for name in ("phase", "time", "source", "number", "offset", "place")
]
_SCHEMA = pyarrow.schema([*SCHEMA, *_CAUSES])


@cache
def topic_number(topic: str) -> int:
    """By which records of two topics are told apart where their times are the same."""
    return crc32(topic.encode())


class Placed(Protocol):
    """Knows where the record at hand was read."""

    @property
    def at(self) -> At: ...


class PagedOutput(Output):
    """What a bucket of a place writes, page after page. Within a page nothing changes its turn: what waited for the
    end of the batch comes after all else, whatever it came of."""

    def __init__(
        self, partition_count: PartitionCount, place: int, *, tells_causes: bool, holds: bool
    ) -> None:
        super().__init__(partition_count)
        self.tells_causes = tells_causes
        self._place = place
        self._holds = holds
        """Whether some of it may wait for the end of the batch."""
        self._phase = AWOKEN
        self._at = NOWHERE
        self._latest_ms = -1
        self._latest_at: dict[At, int] = {}
        self._held_by: Placed | None = None
        self._last: Cause = ()
        """That of the last record: what was held back never comes before what was passed on earlier."""

    def begin_page(self) -> None:
        self._phase, self._at, self._latest_ms = AWOKEN, NOWHERE, -1

    def receive(self, at: At, latest_ms: int) -> None:
        """A record comes, and what is written now came of it."""
        self._phase, self._at, self._latest_ms = RECEIVED, at, latest_ms
        if self._holds:
            self._latest_at[at] = latest_ms

    def end_records(self) -> None:
        self._phase, self._at, self._latest_ms = HELD_BACK, NOWHERE, -1
        self._last = ()

    @contextmanager
    def held_by(self, page: Placed) -> Iterator[None]:
        """What is written now was held back by a page, which knows of where it came."""
        self._held_by = page
        try:
            yield
        finally:
            self._held_by = None

    def _cause(self) -> Cause:
        if self._held_by is None:
            self._last = self._cause_at(self._phase, self._latest_ms, self._at)
        else:
            at = self._held_by.at
            self._last = max(self._last, self._cause_at(HELD_BACK, self._latest_at.get(at, -1), at))
        return self._last

    def _cause_at(self, phase: int, latest_ms: int, at: At) -> Cause:
        topic, partition, offset = at
        if topic is None or partition is None or offset is None:
            return phase, latest_ms, -1, -1, -1, self._place
        return phase, latest_ms, topic_number(topic), partition, offset, self._place


def caused_by_rows(part: Part, times_ms: Rows, place: int) -> Part:
    """Of a fold, whose rows came of any number of records: only their times are known, by row."""
    if not part.order:
        return part
    rows = part.order[0]
    return _caused(part, HELD_BACK, times_ms[rows], -1, -1, rows, place)


def caused_by_records(part: Part, latest_ms: Rows, topic: str, partition: int, offsets: Rows) -> Part:
    """Of operators without state, by rows of what was read."""
    if not part.order:
        return part
    rows = part.order[0]
    return _caused(part, RECEIVED, latest_ms[rows], topic_number(topic), partition, offsets[rows], 0)


def _caused(part: Part, *numbers: int | Rows) -> Part:
    count = part.batch.num_rows
    columns = (numpy.full(count, one, numpy.int64) if isinstance(one, int) else one for one in numbers)
    return part._replace(order=tuple(columns))


def is_needed(stage: Stage) -> bool:
    """Whether something behind state is written under another key than it was brought there by, or to where others
    write too."""
    if any(_changes_keys(domain) for domain in stage.domains):
        return True
    behind = [topic for domain in stage.domains for topic in _written_by(domain)]
    past = {topic for place in stage.reading for topic in _written_by(place)}
    return len(set(behind)) < len(behind) or not past.isdisjoint(behind)


def _written_by(place: Place) -> set[object]:
    """Topics; and functions that choose some."""
    sinks = {node.topic for node in place.nodes if isinstance(node, Sink)}
    return sinks | {crossing.topic for found in place.crossings.values() for crossing in found}


def _changes_keys(domain: Place) -> bool:
    changed: set[Node] = set()
    waiting = [node for node in {*domain.children, *domain.nodes} if _is_changing(node)]
    while waiting:
        node = waiting.pop()
        if node not in changed:
            changed.add(node)
            waiting += [child for child, _ in domain.children.get(node, ())]
    crossings = [(node, crossing) for node, found in domain.crossings.items() for crossing in found]
    return any(isinstance(node, Sink) for node in changed) or any(
        crossing.kind == "group" or (crossing.kind == "stream" and node in changed)
        for node, crossing in crossings
    )


def _is_changing(node: Node) -> bool:
    match node:
        case Map(result=result) | FlatMap(result=result):
            return result != "value"
        case ToStream(selector=selector):
            return selector is not None
        case Process():
            return not node.keeps_key
        case _:
            return False


def cells_of(parts: Sequence[Part]) -> Iterator[tuple[int, bytes]]:
    """What a bucket writes: cells, and where each of them goes."""
    for part in parts:
        keys = part.batch.column("key").to_pylist()
        targets = numpy.fromiter((0 if key is None else crc32(key) % TARGETS for key in keys), numpy.int64)
        none = numpy.zeros(len(keys), numpy.int64)
        causes = part.order or (none,) * len(_CAUSES)
        columns = [*part.batch.columns, *map(pyarrow.array, causes)]
        whole = pyarrow.RecordBatch.from_arrays(columns, schema=_SCHEMA)
        for target in numpy.unique(targets).tolist():
            own = whole.take(pyarrow.array(numpy.flatnonzero(targets == target)))
            yield target, cell_of([own], _SCHEMA)


def unpacked(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Cells back into rows, in order: runs in the sink's tasks."""
    found: list[pyarrow.RecordBatch] = []
    for batch in batches:
        for cell in batch.column("cell"):
            for part in batches_of(cell.as_buffer()):
                if part.schema.equals(_SCHEMA):
                    found.append(part)
                else:  # what did not go through state is in order
                    yield part
    if not found:
        return
    whole = pyarrow.Table.from_batches(found)
    turns = turns_of([whole.column(field.name).to_numpy() for field in _CAUSES])
    if turns is not None:
        whole = whole.take(pyarrow.array(turns))
    yield from whole.select(SCHEMA.names).combine_chunks().to_batches()
