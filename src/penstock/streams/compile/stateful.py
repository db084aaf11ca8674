"""State in Spark: buckets of keys under `transformWithState`, in append mode, with pages in RocksDB.

Spark supports a Python sink in append mode only, and its own aggregations need update mode, so they cannot be used.
Buckets are not slower: Spark sees hundreds of cells instead of millions of rows, and folds use Arrow (`folds`).

Stream time is Spark's watermark: it is global, checkpointed, and advances between batches. But a watermark also drops
older rows, which is for the operators to decide (each has its own grace period). So event time is shifted ahead by a
century and the watermark is delayed by a century: no row is ever late, and the watermark is stream time itself.
"""

from __future__ import annotations

import pickle
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy
import pyarrow
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from penstock.streams import topology as t
from penstock.streams.compile import exchange, forms, names
from penstock.streams.compile.caching import NOWHERE
from penstock.streams.compile.chain import Chain
from penstock.streams.compile.columns import Columns
from penstock.streams.compile.cut import Crossing, Entry, Place, Stage
from penstock.streams.compile.failures import OperatorFailed
from penstock.streams.compile.folds import Fold, FoldBucket, rows_of_cell
from penstock.streams.compile.operators import Cause, OperatorPage, Serdes
from penstock.streams.compile.ordering import Part
from penstock.streams.compile.outputs import Output, cell_of, encoded
from penstock.streams.compile.pages import BUCKETS, META, Pages, SparkPages
from penstock.streams.compile.shuffle import (
    LATEST,
    OFFSET,
    PASS,
    SHIFT_MS,
    decoders_of,
    domain_number,
    folds_of,
    is_raw,
    passed,
    record_of,
    unpacked,
)
from penstock.streams.compile.tables import WorkerTables
from penstock.streams.compile.tasks import Program, dead_letter_headers, written
from penstock.streams.nouns import Record
from penstock.streams.windows import TimeWindows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PAGES = 16
"""Pages of a bucket of operators; a fold's pages grow by themselves. Checkpoints depend on it."""

DELAY = f"{SHIFT_MS // 86_400_000} days"
NEVER_MS = 1 << 62


def processed(packs: DataFrame, domains: Domains) -> DataFrame:
    """Cells of output."""
    mode = domains.time_mode
    if mode != "None":
        packs = packs.withWatermark("at", DELAY)
    buckets = packs.groupBy("domain", "bucket")
    cells = buckets.transformWithState(domains, "target int, cell binary", "Append", mode)
    return (cells.repartition("target") if domains.exchanges else cells).select("cell")


class Domains(StatefulProcessor):
    """All domains of a stage, one bucket at a time. Created on the driver, pickled to tasks."""

    def __init__(
        self, program: Program, stage: Stage, order: list[t.Node], logged: Mapping[str, bool]
    ) -> None:
        self.program = program
        self.stage = stage
        self.logged = dict(logged)
        self.entries = stage.entries
        raw = [is_raw(stage, entry) for entry in self.entries]
        self.decoders = [
            decoders_of(entry, raw=found) for entry, found in zip(self.entries, raw, strict=True)
        ]
        self.serdes: list[Serdes] = [
            (None, None) if found else (entry.parent.key, entry.parent.value)
            for entry, found in zip(self.entries, raw, strict=True)
        ]
        self.folds = folds_of(stage, program)
        self.numbers = {domain_number(domain): domain for domain in stage.domains}
        self.operators = {domain: _operators(domain, self.entries, order) for domain in stage.domains}
        self.time_mode = self._time_mode()
        self.exchanges = exchange.is_needed(stage)
        self.place_numbers = {domain: number for number, domain in enumerate(stage.domains, 1)}

    def page_count(self, domain: Place) -> int:
        """Of a bucket of operators."""
        return 1 if any(map(_sees_all_keys, self.operators[domain])) else PAGES

    def cells_of(self, parts: list[Part]) -> Iterator[tuple[int, bytes]]:
        """The output of a bucket, and the writing task it goes to if that is not its own."""
        if self.exchanges:
            yield from exchange.cells_of(parts)
        elif parts:
            yield 0, cell_of(part.batch for part in parts)

    # Called by Spark.

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.pages = SparkPages(handle.getMapState("pages", "page int", "data binary"))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        domain, bucket = key
        cells = [bytes(row["cell"]) for row in rows]
        if domain == PASS:
            yield from (Row(target=bucket, cell=cell) for cell in passed(cells))
            return
        work = self._work(domain, timerValues)
        yield from (Row(target=target, cell=cell) for target, cell in self.cells_of(work.receive(cells)))
        self._set_timer(work, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        domain, _ = key
        if domain not in self.numbers:  # set by an earlier version of the topology
            return
        work = self._work(domain, timerValues)
        yield from (Row(target=target, cell=cell) for target, cell in self.cells_of(work.wake()))
        self._set_timer(work, timerValues)

    def close(self) -> None:
        pass

    def _work(self, number: int, timer_values: Any) -> FoldWork | OperatorWork:
        domain = self.numbers[number]
        # Spark reports 0 before any record has shown a time.
        stream_time_ms = timer_values.getCurrentWatermarkInMs() or -1
        if domain in self.folds:
            return FoldWork(self, domain, self.pages, stream_time_ms=stream_time_ms)
        # Spark records the time of a batch and repeats it when the batch is replayed, whose output may already be
        # written. A timer that fired only then would have no effect. Without processing-time timers Spark reports no
        # time.
        wall_time_ms = timer_values.getCurrentProcessingTimeInMs()
        if wall_time_ms <= 0:
            wall_time_ms = _now_ms()
        return OperatorWork(
            self, domain, self.pages, stream_time_ms=stream_time_ms, wall_time_ms=wall_time_ms
        )

    def _set_timer(self, work: FoldWork | OperatorWork, timer_values: Any) -> None:
        """One timer per bucket, for the next due time; not before the next batch, because Spark deletes a timer that
        has fired. A stage with wall-clock timers has no stream-time timers: its buckets check with every batch
        whether one is due."""
        if self.time_mode == "EventTime":
            due_ms, now_ms = work.due_ms, timer_values.getCurrentWatermarkInMs()
        elif self.time_mode == "ProcessingTime":
            now_ms = timer_values.getCurrentProcessingTimeInMs()
            due_ms = work.wall_due_ms if work.due_ms is None else now_ms
        else:
            return
        if due_ms is not None:
            self.handle.registerTimer(max(due_ms, now_ms + 1))

    def _time_mode(self) -> str:
        nodes = [node for operators in self.operators.values() for node in operators]
        if any(_uses_wall_clock(node) for node in nodes if isinstance(node, t.Process)):
            return "ProcessingTime"
        return "EventTime" if any(map(_minds_time, nodes)) else "None"


class FoldWork:
    """A bucket of a fold."""

    wall_due_ms: int | None = None

    def __init__(self, domains: Domains, domain: Place, pages: Pages, *, stream_time_ms: int) -> None:
        self.program = domains.program
        self.domain = domain
        self.node, self.fold = domains.folds[domain]
        windows = self.node.windows
        assert windows is None or isinstance(windows, TimeWindows)
        fold: Fold = self.fold
        self.pages = pages
        self.page_count = domains.page_count(domain)
        self.bucket = FoldBucket(fold, pages, windows, stream_time_ms=stream_time_ms, adopt=self._adopted)
        self.logged = domains.logged
        self.exchanges = domains.exchanges
        self.place_number = domains.place_numbers[domain]
        self.output = Output(self.program.partition_count)
        self.rows: pyarrow.RecordBatch
        """The changed rows of a page, as forwarded."""
        self.first_row = 0
        """The positions of the page's rows among all changed rows."""

    @property
    def due_ms(self) -> int | None:
        return self.bucket.forgets_at_ms

    def receive(self, cells: list[bytes]) -> list[Part]:
        node = self.node
        assert node.key is not None
        chain = Chain(self.domain, self, WorkerTables(self.program.client), self._failed)
        all_times = []
        for rows in self.bucket.update(batch for cell in cells for batch in rows_of_cell(cell)):
            keys, values, times = rows.columns
            if self.logged.get(node.store):
                topic = names.changelog(self.program.application_id, node.store)
                self.output.add_columns(topic, keys, encoded(node.value, values, node.name), times)
            self.rows = rows
            records = Columns(
                node.key.decode_column(keys),
                values,
                numpy.arange(self.first_row, self.first_row + rows.num_rows),
                numpy.asarray(times),
                None,
            )
            chain.feed(node, records)
            all_times.append(records.times)
            self.first_row += rows.num_rows
        parts = self.output.taken_parts()
        if not (self.exchanges and parts):
            return parts
        times_ms = numpy.concatenate(all_times)
        return [exchange.caused_by_rows(part, times_ms, self.place_number) for part in parts]

    def wake(self) -> list[Part]:
        self.bucket.forget()
        return []

    def _adopted(self, meta: bytes | None) -> bytes | None:
        """Converts pages of operators from an earlier version of the program."""
        if forms.is_of_fold(meta) or (meta is None and self.pages.is_empty()):
            return meta
        return forms.to_fold(self.pages, meta, self.node, self.page_count)

    # Where records leave: see `chain.Outlet`.

    def to_sink(self, node: t.Sink, records: Columns) -> None:
        written(lambda some: self.output.add_sink(node, some), records, self._failed)

    def to_internal(self, crossing: Crossing, records: Columns) -> None:
        topic = names.internal(self.program.application_id, crossing.topic)
        written(lambda some: self.output.add_crossing(crossing, topic, some), records, self._failed)

    def to_domain(self, entry: Entry, records: Columns) -> None:
        raise AssertionError(f"{entry} cannot start after a stateful operator")

    def _failed(self, failure: OperatorFailed, row: int) -> None:
        """A row of a fold results from any number of records: its key is known, but no position."""
        key, time_ms = (self.rows.column(name)[row - self.first_row].as_py() for name in ("key", "at"))
        assert self.node.key is not None
        if not self.program.skips_failed:
            raise failure.of(self.node.key.decode(key)) from failure.reason
        if self.program.dead_letters is not None:
            headers = dead_letter_headers(failure, *NOWHERE)
            self.output.add(self.program.dead_letters, key, None, time_ms, headers)


class OperatorWork:
    """A bucket of a domain of operators: its records, page by page.

    The page `META` holds the stream time after which each page wants to be called.
    """

    def __init__(
        self, domains: Domains, domain: Place, pages: Pages, *, stream_time_ms: int, wall_time_ms: int
    ) -> None:
        self.domains = domains
        self.program = domains.program
        self.domain = domain
        self.pages = pages
        self.stream_time_ms = stream_time_ms
        self.wall_time_ms = wall_time_ms
        self.output = exchange.PagedOutput(
            self.program.partition_count,
            domains.place_numbers[domain],
            tells_causes=domains.exchanges,
            holds=self.program.caches,
        )
        self.tables = WorkerTables(self.program.client)
        self.nodes = domains.operators[domain]
        self.decoders = domains.decoders
        self.page_count = domains.page_count(domain)
        meta = self._adopted(pages.read(META))
        self.due: dict[int, tuple[int, int]] = {} if meta is None else pickle.loads(meta)
        """By page: stream time and wall time of the next due action."""
        self._meta = meta

    def _adopted(self, meta: bytes | None) -> bytes | None:
        """Converts columns of a fold from an earlier version of the program."""
        if meta is None or not forms.is_of_fold(meta):
            return meta
        entered = {entry.child for entry in self.domains.entries if entry.domain is self.domain}
        (node,) = (node for node in entered if isinstance(node, t.Aggregate))  # a fold is alone in its domain
        forms.to_operators(self.pages, meta, node, self.page_count)
        return None

    @property
    def due_ms(self) -> int | None:
        return min((stream_ms for stream_ms, _ in self.due.values() if stream_ms != NEVER_MS), default=None)

    @property
    def wall_due_ms(self) -> int | None:
        return min((wall_ms for _, wall_ms in self.due.values() if wall_ms != NEVER_MS), default=None)

    def receive(self, cells: list[bytes]) -> list[Part]:
        found: dict[int, list[Any]] = defaultdict(list)
        for one in unpacked(cells):
            found[one[1][0] // BUCKETS % self.page_count].append(one)
        for number, records in found.items():
            self._with_page(number, records)
        return self._finish(except_for=set(found))

    def wake(self) -> list[Part]:
        return self._finish(except_for=set())

    def _finish(self, except_for: set[int]) -> list[Part]:
        for number, (stream_ms, wall_ms) in list(self.due.items()):
            is_due = stream_ms <= self.stream_time_ms or wall_ms <= self.wall_time_ms
            if is_due and number not in except_for:
                self._with_page(number, [])
        meta = pickle.dumps(self.due)
        if meta != self._meta and (self.due or self._meta is not None):
            self.pages.write(META, meta)
        return self.output.taken_parts()

    def _with_page(self, number: int, records: list[Any]) -> None:
        page = OperatorPage(
            self.program,
            self.domain,
            self.output,
            self.tables,
            self.domains.logged,
            self.nodes,
            wall_time_ms=self.wall_time_ms,
            failing=self._failed,
        )
        data = self.pages.read(number)
        if data is not None:
            page.remember(data)
        self.output.begin_page()
        page.advance(self.stream_time_ms)
        entries, decoders, serdes = self.domains.entries, self.decoders, self.domains.serdes
        for pack, packed in records:
            at = pack.topic, pack.partition, packed[OFFSET]
            self.output.receive(at, packed[LATEST])
            entry = entries[packed[1]]
            try:
                record = record_of(packed, *decoders[packed[1]])
            except Exception as error:
                _, _, _, key, value, timestamp_ms, _, _ = packed
                cause = Cause(at, Record(key, value, timestamp_ms), (None, None))
                self._failed(OperatorFailed(entry.child.name, error).at(*at), cause)
                continue
            page.receive(entry.child, entry.position, record, at, serdes[packed[1]])
        self.output.end_records()
        page.tick()
        with self.output.held_by(page):
            page.finish()
        page.close()
        kept = page.remembered()
        if kept != data:
            self.pages.write(number, kept)
        stream_ms, wall_ms = page.waits_until_ms(), page.wall_due_ms()
        self.due.pop(number, None)
        if stream_ms is not None or wall_ms is not None:
            # One more than the stream time: a window whose end is reached exactly may still be open.
            self.due[number] = (
                NEVER_MS if stream_ms is None else stream_ms + 1,
                NEVER_MS if wall_ms is None else wall_ms,
            )

    def _failed(self, failure: OperatorFailed, cause: Cause) -> None:
        if not self.program.skips_failed:
            raise failure from failure.reason
        if self.program.dead_letters is not None:
            # The bytes that were read are not available here, but headers name their position. These are the bytes of
            # the record as it reached state.
            headers = dead_letter_headers(failure, *cause.at)
            key, value = cause.written()
            self.output.add(self.program.dead_letters, key, value, cause.record.timestamp_ms, headers)


def _operators(domain: Place, entries: list[Entry], order: list[t.Node]) -> list[t.Node]:
    """The working nodes of a domain, parents first."""
    found = {entry.child for entry in entries if entry.domain is domain} | set(domain.nodes)
    return [node for node in order if node in found and not isinstance(node, t.Sink)]


def _minds_time(node: t.Node) -> bool:
    if isinstance(node, t.Aggregate):
        return node.windows is not None
    if isinstance(node, t.StreamTableJoin):
        return node.grace_ms is not None
    return isinstance(node, t.Suppress | t.StreamJoin | t.Process)


def _sees_all_keys(node: t.Node) -> bool:
    if isinstance(node, t.Suppress):
        return node.max_records is not None or node.max_bytes is not None
    return isinstance(node, t.Process)


class _Probe:
    """A context that only records which timers a processor sets."""

    application_id = ""
    stream_time_ms = -1
    wall_time_ms = 0
    topic = partition = offset = None

    def __init__(self) -> None:
        self.clocks: list[str] = []

    def schedule(self, every: Any, callback: Any, *, clock: str = "stream") -> _Probe:
        self.clocks.append(clock)
        return self

    def cancel(self) -> None:
        pass

    def store(self, name: str) -> Any:
        return self

    def forward(self, record: Any) -> None:
        pass


def _uses_wall_clock(node: t.Process) -> bool:
    """Asks a separate processor instance on the driver, because Spark has to know before it starts."""
    probe = _Probe()
    try:
        processor = node.processor()
        processor.context = probe
        processor.init(probe)
    except Exception:  # it needs more than this probe offers; an error is reported when it runs
        return "wall" in probe.clocks
    return "wall" in probe.clocks


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
