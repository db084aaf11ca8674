"""What runs in the reading tasks: the `penstock.transform` of a stage's source.

A task reads one range of one partition. `ReadingTask` finds the operators of its topic, runs them over each batch,
and emits the result: cells of output for a stage without state, packs of records by bucket for one with state
(`shuffle`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy
import pyarrow

from penstock.spark import clients
from penstock.streams.compile import names
from penstock.streams.compile.chain import Chain, Failing
from penstock.streams.compile.columns import Columns
from penstock.streams.compile.cut import Crossing, Entry, Place, Stage
from penstock.streams.compile.failures import OperatorFailed
from penstock.streams.compile.outputs import Output, cell_of
from penstock.streams.compile.reading import records_of
from penstock.streams.compile.tables import WorkerTables
from penstock.streams.interpret.engine import source_reads
from penstock.streams.nouns import Headers
from penstock.streams.topology import Sink, Source

CELLS = pyarrow.schema([("cell", pyarrow.binary())])


@dataclass(frozen=True)
class Program:
    """What every task of an application needs to know."""

    application_id: str
    client: Mapping[str, object]
    skips_unreadable: bool = False
    skips_failed: bool = False
    dead_letters: str | None = None
    caches: bool = True
    """Whether only the last update of a key in a batch is forwarded."""
    topics: Mapping[str, int] = field(default_factory=dict)
    """Partitions of topics, looked up when the application started."""

    def partition_count(self, topic: str) -> int:
        if topic in self.topics:
            return self.topics[topic]
        with clients.consumer(self.client) as consumer:
            return len(consumer.partitions_for(topic))


class Origin:
    """The current batch: its position, and its rows before any operator."""

    def __init__(self, batch: pyarrow.RecordBatch) -> None:
        self.batch = batch
        self.topic: str = batch.column("topic")[0].as_py()
        self.partition: int = batch.column("partition")[0].as_py()

    @property
    def span(self) -> tuple[str, int, int, int]:
        """Topic, partition, first and last offset."""
        return self.topic, self.partition, self.offset(0), self.offset(self.batch.num_rows - 1)

    def offset(self, row: int) -> int:
        offset: int = self.batch.column("offset")[row].as_py()
        return offset


class ReadingTask(ABC):
    """The operators of a stage's reading places. Pickled on the driver, called once in each task."""

    def __init__(self, program: Program, stage: Stage) -> None:
        self.program = program
        self.stage = stage

    def __call__(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        self.output = Output(self.program.partition_count)
        tables = WorkerTables(self.program.client)
        for batch in batches:
            if not batch.num_rows:
                continue
            self.origin = Origin(batch)
            for place in self._places(self.origin.topic):
                assert place.root is not None
                is_raw = place.crossing is not None and place.crossing.kind != "stream"
                records = records_of(batch, place.root, self.origin.topic, self._unreadable, is_raw=is_raw)
                self.begin(place, records)
                try:
                    Chain(place, self, tables, self._failed).feed(place.root, records)
                except OperatorFailed as failure:
                    raise failure.among(*self.origin.span) from failure.reason
            yield from self.results()
        yield from self.finish()

    @abstractmethod
    def begin(self, place: Place, records: Columns) -> None:
        """The current batch as it was read."""

    @abstractmethod
    def results(self) -> Iterator[pyarrow.RecordBatch]:
        """Output of the last batch."""

    def finish(self) -> Iterator[pyarrow.RecordBatch]:
        """Output at the end of the range."""
        yield from ()

    # Where records leave the place: see `chain.Outlet`.

    def to_sink(self, node: Sink, records: Columns) -> None:
        written(lambda some: self.output.add_sink(node, some), records, self._failed)

    def to_internal(self, crossing: Crossing, records: Columns) -> None:
        topic = names.internal(self.program.application_id, crossing.topic)
        written(lambda some: self.output.add_crossing(crossing, topic, some), records, self._failed)

    def to_domain(self, entry: Entry, records: Columns) -> None:
        raise AssertionError(f"{entry} needs state, which this stage does not have")

    def _places(self, topic: str) -> list[Place]:
        return [place for place in self.stage.reading if reads(place, topic, self.program.application_id)]

    def _unreadable(self, failure: OperatorFailed, row: int) -> None:
        self._handle(failure, row, skips=self.program.skips_unreadable)

    def _failed(self, failure: OperatorFailed, row: int) -> None:
        self._handle(failure, row, skips=self.program.skips_failed)

    def _handle(self, failure: OperatorFailed, row: int, *, skips: bool) -> None:
        origin = self.origin
        failure = failure.at(origin.topic, origin.partition, origin.offset(row))
        if not skips:
            raise failure from failure.reason
        if self.program.dead_letters is not None:
            found = {name: origin.batch.column(name)[row].as_py() for name in ("key", "value", "timestamp")}
            time_ms = round(found["timestamp"].timestamp() * 1000)
            headers = dead_letter_headers(failure, origin.topic, origin.partition, origin.offset(row))
            self.output.add(self.program.dead_letters, found["key"], found["value"], time_ms, headers)


def written(write: Callable[[Columns], None], records: Columns, failing: Failing) -> None:
    """Halve what cannot be written as columns until the failing records are known. `write` does all or nothing."""
    try:
        write(records)
    except OperatorFailed as failure:
        count = len(records)
        if count == 1:
            failing(failure, int(records.rows[0]))
            return
        places = numpy.arange(count)
        written(write, records.take(places[: count // 2]), failing)
        written(write, records.take(places[count // 2 :]), failing)


class StatelessTask(ReadingTask):
    """Writes its output to topics; keeps no state."""

    def begin(self, place: Place, records: Columns) -> None:
        pass

    def results(self) -> Iterator[pyarrow.RecordBatch]:
        taken = self.output.taken()
        if taken:
            yield pyarrow.RecordBatch.from_pydict({"cell": [cell_of(taken)]}, schema=CELLS)


def reads(place: Place, topic: str, application_id: str) -> bool:
    """Whether records of a topic belong to a reading place."""
    root = place.root
    if isinstance(root, Source) and place.crossing is None:
        return source_reads(root, topic)
    return names.internal(application_id, place.name) == topic


def dead_letter_headers(
    failure: OperatorFailed, topic: str | None, partition: int | None, offset: int | None
) -> Headers:
    """Header names of Kafka Streams (KIP-1034), as far as their values are known."""
    headers: dict[str, Any] = {
        "__streams.errors.exception": type(failure.reason).__name__,
        "__streams.errors.message": str(failure.reason),
        "__streams.errors.topic": topic,
        "__streams.errors.partition": partition,
        "__streams.errors.offset": offset,
        "__streams.errors.operator": failure.operator,
    }
    return tuple((name, str(value).encode()) for name, value in headers.items() if value is not None)
