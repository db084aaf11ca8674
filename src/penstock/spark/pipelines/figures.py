"""What a query has done so far, from what Spark reports after every micro-batch; sans-IO.

`QueryFigures` is what screens show and what the registry keeps. It is fed with Spark's own progress objects as plain
JSON, each once, in the order of their batches; reports that are fed twice are known by their batch and time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

OBSERVED = "penstock"  # the metric that queries of an App have, and its part
OBSERVED_RECORDS = "records"

Offsets = dict[str, dict[str, int]]


@dataclass(slots=True)
class QueryFigures:
    name: str
    is_packed: bool = False
    """Whether rows are packets of records, as those of an App are: then offsets tell how many were read, and a metric
    of the query how many were written (`OBSERVED`)."""
    state: str = "starting"
    """Then running, or waiting for a broker; at last done, stopped or failed."""
    batch: int = -1
    rows_in: int = 0
    rows_in_per_second: float = 0.0
    rows_done_per_second: float = 0.0
    """How fast its last batch worked, which is what it could do; `rows_in_per_second` is what came."""
    rows_out: int | None = None
    """None where the sink does not tell."""
    batch_ms: int = 0
    lag: int | None = None
    """Records that are there and not yet read; None as long as the source has not told."""
    state_rows: int = 0
    state_bytes: int = 0
    late_rows: int = 0
    watermark: str | None = None
    goal: int | None = None
    """Records that were there when the query began; what is read of them is `done`."""
    done: int = 0
    offsets: Offsets = field(default_factory=dict)
    """What the next batch begins with."""
    at_work_seconds: int = 0
    """For how long it has told nothing, though it is at something."""
    lacks_workers: bool = False
    """Whether no worker of a cluster has taken the program on, for want of cores or memory."""
    waits_for: str | None = None
    """Bootstrap servers where nobody answers, though the query asks."""
    waiting_seconds: int = 0
    patience_seconds: int | None = None
    """After how long the query gives up."""
    _last: tuple[int, str] = (-1, "")
    _target: Offsets | None = None

    def take(self, progress: Mapping[str, Any]) -> bool:
        """Whether this report was new; one of an earlier batch is not."""
        key = (int(progress["batchId"]), str(progress["timestamp"]))
        if key <= self._last:
            return False
        self._last = key
        self.batch = key[0]
        self.take_answer()
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

    def take_outage(self, servers: str, *, seconds: float, patience_seconds: float | None) -> None:
        """Nobody answers: nothing comes, and how much there would be nobody knows."""
        self.state = "waiting"
        self.waits_for = servers
        self.waiting_seconds = int(seconds)
        self.patience_seconds = None if patience_seconds is None else int(patience_seconds)
        self.rows_in_per_second = 0.0
        self.lag = None

    def take_answer(self) -> None:
        """Somebody answers again."""
        if self.waits_for is not None:
            self.state = "starting" if self.batch < 0 else "running"
            self.waits_for, self.waiting_seconds, self.patience_seconds = None, 0, None

    @property
    def fraction(self) -> float | None:
        """How much of what was there at the beginning is read."""
        if self.goal is None:
            return None
        return 1.0 if self.goal <= 0 else min(1.0, self.done / self.goal)

    def as_json(self) -> dict[str, Any]:
        facts = asdict(self)
        facts["fraction"] = self.fraction
        return {name: value for name, value in facts.items() if not name.startswith("_")}

    def _records(self, sources: list[Mapping[str, Any]], rows: int) -> int:
        """How many this batch has read. Of the first one Spark does not say where it began: that is the beginning."""
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
    """Of all sources that tell offsets of topics; None where none of them does."""
    told = [offsets for text in texts if (offsets := read_offsets(text)) is not None]
    merged: Offsets = {}
    for offsets in told:
        for topic, partitions in offsets.items():
            known = merged.setdefault(topic, {})
            for index, offset in partitions.items():  # of two readers of one topic the slower one counts
                known[index] = min(offset, known.get(index, offset))
    return merged if told else None


def _between(start: Offsets, end: Offsets) -> int:
    """How many records lie between them. A partition that `start` does not know begins at its beginning."""
    return sum(
        max(0, offset - start.get(topic, {}).get(index, 0))
        for topic, partitions in end.items()
        for index, offset in partitions.items()
    )


def read_offsets(text: Any) -> Offsets | None:
    """`{"orders": {"0": 17}}`, which Spark gives as text or as what it is; None for offsets of other sources."""
    try:
        told = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return None
    if not isinstance(told, dict) or not all(isinstance(partitions, dict) for partitions in told.values()):
        return None
    # What begins with @ is said of topics, and none of them.
    offsets = {topic: partitions for topic, partitions in told.items() if not topic.startswith("@")}
    if not all(isinstance(offset, int) for partitions in offsets.values() for offset in partitions.values()):
        return None
    return offsets or None


def _state_bytes(operator: Mapping[str, Any]) -> int:
    """RocksDB's files where they are told, which is what state takes on disk; the JVM's memory otherwise."""
    metrics = operator.get("customMetrics") or {}
    return int(metrics.get("rocksdbSstFileSize") or operator.get("memoryUsedBytes", 0))


def _number(value: Any) -> float:
    """Spark writes NaN and Infinity for a batch that took no time."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return 0.0
    return number if number == number and abs(number) != float("inf") else 0.0
