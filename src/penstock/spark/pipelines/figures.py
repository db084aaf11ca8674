"""The figures of a query, from Spark's progress report after every micro-batch; sans-IO.

`QueryFigures` is what screens show and what the registry stores. It takes Spark's progress objects as plain JSON, in
the order of their batches; duplicates are recognized by batch and timestamp.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

OBSERVED = "penstock"  # the observed metric of an App's queries, and its field
OBSERVED_RECORDS = "records"

Offsets = dict[str, dict[str, int]]


@dataclass(slots=True)
class QueryFigures:
    name: str
    is_packed: bool = False
    """Whether rows are packets of records, as in an App: then offsets tell how many were read, and the metric
    `OBSERVED` how many were written."""
    state: str = "starting"
    """Then running, or waiting for a broker; finally done, stopped or failed."""
    batch: int = -1
    rows_in: int = 0
    rows_in_per_second: float = 0.0
    rows_done_per_second: float = 0.0
    """The speed of the last batch, which is the query's capacity; `rows_in_per_second` is the input rate."""
    rows_out: int | None = None
    """None if the sink does not report it."""
    batch_ms: int = 0
    lag: int | None = None
    """Records that are available and not yet read; None until the source reports it."""
    state_rows: int = 0
    state_bytes: int = 0
    late_rows: int = 0
    watermark: str | None = None
    goal: int | None = None
    """Records that were available when the query started; `done` of them are read."""
    done: int = 0
    offsets: Offsets = field(default_factory=dict)
    """Where the next batch starts."""
    at_work_seconds: int = 0
    """How long it has been busy without a report."""
    lacks_workers: bool = False
    """Whether no worker of the cluster has accepted the program, for lack of cores or memory."""
    waits_for: str | None = None
    """Bootstrap servers that do not answer the query."""
    waiting_seconds: int = 0
    patience_seconds: int | None = None
    """After how long the query gives up."""
    _last: tuple[int, str] = (-1, "")
    _target: Offsets | None = None

    def take(self, progress: Mapping[str, Any]) -> bool:
        """Take a report; returns whether it was new."""
        key = (int(progress["batchId"]), str(progress["timestamp"]))
        if key <= self._last:
            return False
        self._last = key
        self.batch = key[0]
        self.end_outage()
        self.state = "running"
        self.at_work_seconds = 0
        self.lacks_workers = False
        self.batch_ms = int(progress.get("batchDuration", 0))
        rows = int(progress.get("numInputRows", 0))
        records = self._records(progress.get("sources") or [], rows)
        records_per_row = records / rows if rows else 1.0
        self.rows_in += records
        self.rows_in_per_second = _number(progress.get("inputRowsPerSecond")) * records_per_row
        self.rows_done_per_second = _number(progress.get("processedRowsPerSecond")) * records_per_row
        self._take_output(progress)
        self._take_state(progress.get("stateOperators") or [])
        self.watermark = (progress.get("eventTime") or {}).get("watermark", self.watermark)
        self._take_sources(progress.get("sources") or [])
        return True

    def set_outage(self, servers: str, *, seconds: float, patience_seconds: float | None) -> None:
        """The brokers do not answer: nothing is read, and the lag is unknown."""
        self.state = "waiting"
        self.waits_for = servers
        self.waiting_seconds = int(seconds)
        self.patience_seconds = None if patience_seconds is None else int(patience_seconds)
        self.rows_in_per_second = 0.0
        self.lag = None

    def end_outage(self) -> None:
        """The brokers answer again."""
        if self.waits_for is not None:
            self.state = "starting" if self.batch < 0 else "running"
            self.waits_for, self.waiting_seconds, self.patience_seconds = None, 0, None

    @property
    def fraction(self) -> float | None:
        """How much of the records that were available at the start is read."""
        if self.goal is None:
            return None
        return 1.0 if self.goal <= 0 else min(1.0, self.done / self.goal)

    def as_json(self) -> dict[str, Any]:
        facts = asdict(self)
        facts["fraction"] = self.fraction
        return {name: value for name, value in facts.items() if not name.startswith("_")}

    def _records(self, sources: list[Mapping[str, Any]], rows: int) -> int:
        """How many records this batch read. Spark reports no start offsets for the first batch: it started at 0."""
        starts = _merged(source.get("startOffset") for source in sources)
        ends = _merged(source.get("endOffset") for source in sources)
        return _between(starts or {}, ends) if self.is_packed and ends is not None else rows

    def _take_output(self, progress: Mapping[str, Any]) -> None:
        if self.is_packed:
            observed = (progress.get("observedMetrics") or {}).get(OBSERVED) or {}
            written = int(observed.get(OBSERVED_RECORDS) or 0) if OBSERVED_RECORDS in observed else -1
        else:
            written = int((progress.get("sink") or {}).get("numOutputRows", -1))
        if written >= 0:
            self.rows_out = (self.rows_out or 0) + written

    def _take_state(self, operators: list[Mapping[str, Any]]) -> None:
        self.state_rows = sum(int(operator.get("numRowsTotal", 0)) for operator in operators)
        self.state_bytes = sum(_state_bytes(operator) for operator in operators)
        self.late_rows += sum(int(operator.get("numRowsDroppedByWatermark", 0)) for operator in operators)

    def _take_sources(self, sources: list[Mapping[str, Any]]) -> None:
        ends = _merged(source.get("endOffset") for source in sources)
        latest = _merged(source.get("latestOffset") for source in sources)
        if ends is None:
            return
        self.offsets = ends
        if latest is None:
            return
        self.lag = _between(ends, latest)
        if self._target is None:
            self._target = latest
            self.goal = self.rows_in + self.lag
        self.done = (self.goal or 0) - _between(ends, self._target)


def _merged(texts: Iterable[Any]) -> Offsets | None:
    """The offsets of all sources that report topic offsets; None if there are none."""
    reported = [offsets for text in texts if (offsets := read_offsets(text)) is not None]
    merged: Offsets = {}
    for offsets in reported:
        for topic, partitions in offsets.items():
            known = merged.setdefault(topic, {})
            for index, offset in partitions.items():  # the slower of two readers of a topic counts
                known[index] = min(offset, known.get(index, offset))
    return merged if reported else None


def _between(start: Offsets, end: Offsets) -> int:
    """How many records are between them. A partition that is not in `start` starts at 0."""
    return sum(
        max(0, offset - start.get(topic, {}).get(index, 0))
        for topic, partitions in end.items()
        for index, offset in partitions.items()
    )


def read_offsets(text: Any) -> Offsets | None:
    """Parse `{"orders": {"0": 17}}`, which Spark gives as text or parsed; None for offsets of other sources."""
    try:
        parsed = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return None
    if not isinstance(parsed, dict) or not all(
        isinstance(partitions, dict) for partitions in parsed.values()
    ):
        return None
    # Names with @ are metadata about topics.
    offsets = {topic: partitions for topic, partitions in parsed.items() if not topic.startswith("@")}
    if not all(isinstance(offset, int) for partitions in offsets.values() for offset in partitions.values()):
        return None
    return offsets or None


def _state_bytes(operator: Mapping[str, Any]) -> int:
    """The size of RocksDB's files, which is what state takes on disk; the JVM's memory if that is not reported."""
    metrics = operator.get("customMetrics") or {}
    return int(metrics.get("rocksdbSstFileSize") or operator.get("memoryUsedBytes", 0))


def _number(value: Any) -> float:
    """Spark writes NaN and Infinity for a batch that took no time."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return 0.0
    return number if number == number and abs(number) != float("inf") else 0.0
