"""The stages of a topology without Spark: its tasks' functions, over an in-memory log, batch by batch.

Spark itself does little in between: it splits ranges, groups cells by (domain, bucket), keeps pages, and moves the
watermark to the greatest event time of earlier batches. All of this is done here, with random choices where Spark is
free to choose.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple
from zlib import crc32

import pyarrow

from penstock.spark.columns import ARROW_TYPES
from penstock.spark.transforms import Transform
from penstock.streams import topology as t
from penstock.streams.compile import exchange, outputs, tables
from penstock.streams.compile.cut import Stage, cut
from penstock.streams.compile.pages import MemoryPages
from penstock.streams.compile.reading import NAMES
from penstock.streams.compile.shuffle import PASS, SHIFT_MS, ShufflingTask, passed
from penstock.streams.compile.stateful import Domains, FoldWork, OperatorWork
from penstock.streams.compile.tasks import CELLS, Program, StatelessTask, reads
from penstock.streams.compile.topics import logged_stores
from penstock.streams.nouns import Headers
from penstock.streams.topology import Topology


class Written(NamedTuple):
    """A record of a topic."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers = ()


class Stages:
    """A topology that runs as its stages."""

    def __init__(
        self,
        topology: Topology,
        *,
        partitions: int = 2,
        caches: bool = True,
        rng: random.Random | None = None,
        **program: Any,
    ) -> None:
        self.topology = topology
        self.partitions = partitions
        self.rng = rng or random.Random(0)
        self.wall_time_ms = 0
        self.log: dict[str, list[list[Written]]] = defaultdict(lambda: [[] for _ in range(partitions)])
        self.program = Program("app", {}, caches=caches, topics=_Everywhere(partitions), **program)
        self.cut = cut(topology)
        logged = dict.fromkeys((name for name, _ in logged_stores(topology)), True)
        self.running = [
            _Running(
                stage,
                (ShufflingTask if stage.is_stateful else StatelessTask)(self.program, stage),
                Domains(self.program, stage, topology.nodes, logged) if stage.is_stateful else None,
            )
            for stage in self.cut.stages
        ]

    def send(self, topic: str, record: Written, partition: int | None = None) -> None:
        if partition is None:
            partition = crc32(record.key or b"") % self.partitions
        self.log[topic][partition].append(record)

    def written(self, topic: str) -> list[Written]:
        """All records of a topic; those of one key are in order."""
        return [record for partition in self.log[topic] for record in partition]

    def run(self) -> None:
        """Run stage after stage until nothing changes."""
        moved = True
        while moved:
            moved = False
            for running in self.running:
                moved = self._batch(running) or moved

    def advance(self, milliseconds: int) -> None:
        """Advance the wall clock, and fire timers."""
        self.wall_time_ms += milliseconds
        for running in self.running:
            for number, bucket in list(running.pages):
                self._exchange(running, self._worked(running, number, bucket, None))
        self.run()

    def _batch(self, running: _Running) -> bool:
        """Run one batch of a stage, then a batch without records if its time advanced. Whether there was anything to
        do."""
        rows: list[dict[str, Any]] = []
        for topic, partition, start, end in self._ranges(running):
            batches = iter(self._read(topic, partition, start, end))
            rows += [row for batch in running.task(batches) for row in batch.to_pylist()]
            running.positions[topic, partition] = end
            running.has_read = True
        found, running.has_read = running.has_read, False
        if running.domains is None:
            self._write([row["cell"] for row in rows])
            return found
        cells: dict[tuple[int, int], list[bytes]] = defaultdict(list)
        for row in self.rng.sample(rows, len(rows)):
            cells[row["domain"], row["bucket"]].append(row["cell"])
        written = [
            (at, cell) for (domain, at), own in cells.items() if domain == PASS for cell in passed(own)
        ]
        for (domain, bucket), own in cells.items():
            if domain != PASS:
                written += self._worked(running, domain, bucket, own)
        shown = max((round(row["at"].timestamp() * 1000) - SHIFT_MS for row in rows), default=-1)
        self._exchange(running, written)
        if shown > running.stream_time_ms:  # so Spark runs a batch without records
            running.stream_time_ms = shown
            woken = [self._worked(running, domain, bucket, None) for domain, bucket in list(running.pages)]
            self._exchange(running, [cell for cells_woken in woken for cell in cells_woken])
        return found

    def _worked(
        self, running: _Running, number: int, bucket: int, cells: list[bytes] | None
    ) -> list[tuple[int, bytes]]:
        assert running.domains is not None
        pages = running.pages[number, bucket]
        domain = running.domains.numbers[number]
        work: FoldWork | OperatorWork
        if domain in running.domains.folds:
            work = FoldWork(running.domains, domain, pages, stream_time_ms=running.stream_time_ms)
        else:
            work = OperatorWork(
                running.domains,
                domain,
                pages,
                stream_time_ms=running.stream_time_ms,
                wall_time_ms=self.wall_time_ms,
            )
        taken = work.wake() if cells is None else work.receive(cells)
        return list(running.domains.cells_of(taken))

    def _ranges(self, running: _Running) -> Iterator[tuple[str, int, int, int]]:
        for topic in list(self.log):
            if not any(reads(place, topic, "app") for place in running.stage.reading):
                continue
            for partition, records in enumerate(self.log[topic]):
                start, end = running.positions.get((topic, partition), 0), len(records)
                if start < end:
                    yield topic, partition, start, end

    def _read(self, topic: str, partition: int, start: int, end: int) -> Iterator[pyarrow.RecordBatch]:
        while start < end:
            until = self.rng.randint(start + 1, end)
            records = self.log[topic][partition][start:until]
            columns: dict[str, list[Any]] = {
                "key": [record.key for record in records],
                "value": [record.value for record in records],
                "topic": [topic] * len(records),
                "partition": [partition] * len(records),
                "offset": list(range(start, until)),
                "timestamp": [record.timestamp_ms * 1000 for record in records],
                "headers": [
                    [{"key": name, "value": value} for name, value in record.headers] or None
                    for record in records
                ],
            }
            yield pyarrow.RecordBatch.from_arrays(
                [
                    pyarrow.array(columns[name], pyarrow.int64()).cast(ARROW_TYPES[name])
                    if name == "timestamp"
                    else pyarrow.array(columns[name], ARROW_TYPES[name])
                    for name in NAMES
                ],
                names=list(NAMES),
            )
            start = until

    def _exchange(self, running: _Running, cells: list[tuple[int, bytes]]) -> None:
        """Write the output of the buckets, in tasks that run one after another."""
        assert running.domains is not None
        if not running.domains.exchanges:
            self._write([cell for _, cell in cells])
            return
        tasks: dict[int, list[bytes]] = defaultdict(list)
        for target, cell in self.rng.sample(cells, len(cells)):
            tasks[target % 2].append(cell)
        for own in tasks.values():
            self._write(own, exchange.unpacked)

    def _write(self, cells: list[bytes], unpacked: Transform = outputs.unpacked) -> None:
        for batch in unpacked(iter([pyarrow.RecordBatch.from_pydict({"cell": cells}, schema=CELLS)])):
            for row in batch.to_pylist():
                headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
                time_ms = round(row["timestamp"].timestamp() * 1000)
                record = Written(row["key"], row["value"], time_ms, headers)
                self.send(row["topic"], record, row["partition"])


class _Everywhere(dict[str, int]):
    """Every topic has the same number of partitions."""

    def __init__(self, partitions: int) -> None:
        super().__init__()
        self._partitions = partitions

    def __contains__(self, topic: object) -> bool:
        return True

    def __missing__(self, topic: str) -> int:
        return self._partitions


class _Running:
    def __init__(self, stage: Stage, task: Any, domains: Domains | None) -> None:
        self.stage = stage
        self.task = task
        self.domains = domains
        self.positions: dict[tuple[str, int], int] = {}
        self.pages: dict[tuple[int, int], MemoryPages] = defaultdict(MemoryPages)
        self.stream_time_ms = -1
        self.has_read = False


def hold_global_tables(monkeypatch: Any, stages: Stages) -> None:
    """Global tables read the in-memory log."""

    def held(node: t.GlobalTable, settings: Any) -> tables.Rows:
        assert node.key is not None
        assert node.value is not None
        rows = tables.Rows(node.key, node.value)
        for record in stages.written(node.topic):
            if record.key is not None:
                rows.put(record.key, record.value)
        return rows

    monkeypatch.setattr(tables, "_held", held)
