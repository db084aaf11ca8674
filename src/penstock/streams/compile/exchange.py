"""A second shuffle for records of one key that several buckets write, to restore their order.

Buckets of state run in parallel, each with its own keys. While a key does not change, all its output comes from one
bucket, in order. If the key changes after state, or if records that bypass state go to the same topic, the output
comes from several buckets. It is shuffled once more, and the writing task orders it by the records that caused it. In
Kafka Streams one task has all keys of a partition and needs no such step.

Causes are compared by (phase, time, topic, partition, offset, place). A record's time is the latest time of its
partition up to there: it never decreases with the offset, so each partition keeps its order, and between partitions
the one whose next record is earliest goes first. Output that bypasses state comes first.
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
"""Phases of a batch: timers due before its records, the records, and updates buffered until its end."""

TARGETS = 16  # limits the cells of a bucket and the tasks that can write in parallel

_CAUSES = [
    pyarrow.field(name, pyarrow.int64()) for name in ("phase", "time", "source", "number", "offset", "place")
]
_SCHEMA = pyarrow.schema([*SCHEMA, *_CAUSES])


@cache
def topic_number(topic: str) -> int:
    """Tells records of two topics with the same time apart."""
    return crc32(topic.encode())


class Placed(Protocol):
    """Knows the position of the current record."""

    @property
    def at(self) -> At: ...


class PagedOutput(Output):
    """The output of one bucket of a place, page after page. Within a page the order stays: updates buffered until the
    end of the batch come last, whatever caused them."""

    def __init__(
        self, partition_count: PartitionCount, place: int, *, tells_causes: bool, holds: bool
    ) -> None:
        super().__init__(partition_count)
        self.tells_causes = tells_causes
        self._place = place
        self._holds = holds
        """Whether some output may be buffered until the end of the batch."""
        self._phase = AWOKEN
        self._at = NOWHERE
        self._latest_ms = -1
        self._latest_at: dict[At, int] = {}
        self._held_by: Placed | None = None
        self._last: Cause = ()
        """The cause of the last record: buffered output never comes before output that was forwarded earlier."""

    def begin_page(self) -> None:
        self._phase, self._at, self._latest_ms = AWOKEN, NOWHERE, -1

    def receive(self, at: At, latest_ms: int) -> None:
        """A record arrived; what is written now is caused by it."""
        self._phase, self._at, self._latest_ms = RECEIVED, at, latest_ms
        if self._holds:
            self._latest_at[at] = latest_ms

    def end_records(self) -> None:
        self._phase, self._at, self._latest_ms = HELD_BACK, NOWHERE, -1
        self._last = ()

    @contextmanager
    def held_by(self, page: Placed) -> Iterator[None]:
        """What is written now was buffered by a page, which knows its cause."""
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
    """The causes of a fold's rows: any number of records, so only the times of rows are known."""
    if not part.order:
        return part
    rows = part.order[0]
    return _caused(part, HELD_BACK, times_ms[rows], -1, -1, rows, place)


def caused_by_records(part: Part, latest_ms: Rows, topic: str, partition: int, offsets: Rows) -> Part:
    """The causes of stateless output, by source rows."""
    if not part.order:
        return part
    rows = part.order[0]
    return _caused(part, RECEIVED, latest_ms[rows], topic_number(topic), partition, offsets[rows], 0)


def _caused(part: Part, *numbers: int | Rows) -> Part:
    count = part.batch.num_rows
    columns = (numpy.full(count, one, numpy.int64) if isinstance(one, int) else one for one in numbers)
    return part._replace(order=tuple(columns))


def is_needed(stage: Stage) -> bool:
    """Whether output behind state is written under another key than it was shuffled by, or to a topic that other
    places write too."""
    if any(_changes_keys(domain) for domain in stage.domains):
        return True
    behind = [topic for domain in stage.domains for topic in _written_by(domain)]
    past = {topic for place in stage.reading for topic in _written_by(place)}
    return len(set(behind)) < len(behind) or not past.isdisjoint(behind)


def _written_by(place: Place) -> set[object]:
    """The topics, and the functions that choose topics."""
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
    """The output of a bucket: cells, and the target of each."""
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
    """Unpack cells into rows, in order: runs in the sink's tasks."""
    found: list[pyarrow.RecordBatch] = []
    for batch in batches:
        for cell in batch.column("cell"):
            for part in batches_of(cell.as_buffer()):
                if part.schema.equals(_SCHEMA):
                    found.append(part)
                else:  # output that bypassed state is in order
                    yield part
    if not found:
        return
    whole = pyarrow.Table.from_batches(found)
    turns = turns_of([whole.column(field.name).to_numpy() for field in _CAUSES])
    if turns is not None:
        whole = whole.take(pyarrow.array(turns))
    yield from whole.select(SCHEMA.names).combine_chunks().to_batches()
