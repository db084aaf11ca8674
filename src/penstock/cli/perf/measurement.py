"""Figures of a load test: latencies, windows and totals."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

MIB = 1024 * 1024


@dataclass(slots=True)
class Latencies:
    """Latency samples. All are kept, so percentiles are exact."""

    samples: array[float] = field(default_factory=lambda: array("d"))

    def add(self, milliseconds: float) -> None:
        self.samples.append(milliseconds)

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def mean(self) -> float:
        return sum(self.samples) / len(self.samples) if self.samples else 0.0

    @property
    def maximum(self) -> float:
        return max(self.samples, default=0.0)

    def percentiles(self, *shares: float) -> list[float]:
        """Percentiles, as Kafka's tools compute them: by index, without interpolation."""
        if not self.samples:
            return [0.0] * len(shares)
        ordered = sorted(self.samples)
        return [ordered[min(int(share * len(ordered)), len(ordered) - 1)] for share in shares]

    def facts(self) -> dict[str, float]:
        p50, p95, p99, p999 = self.percentiles(0.5, 0.95, 0.99, 0.999)
        facts = {"mean": self.mean, "p50": p50, "p95": p95, "p99": p99, "p99.9": p999, "max": self.maximum}
        return {name: round(value, 3) for name, value in facts.items()}


@dataclass(slots=True)
class Span:
    """Work done in a window, or in total."""

    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    latencies: Latencies = field(default_factory=Latencies)

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds if self.seconds > 0 else 0.0

    @property
    def mib_per_second(self) -> float:
        return self.bytes / MIB / self.seconds if self.seconds > 0 else 0.0

    def facts(self) -> dict[str, object]:
        """For JSON and for tables."""
        return {
            "records": self.records,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "records_per_second": round(self.records_per_second, 1),
            "mib_per_second": round(self.mib_per_second, 2),
            "latency_ms": self.latencies.facts() if self.latencies else None,
        }


class Meter:
    """Sums up work and divides it into windows. `add` must be cheap: it is called for every chunk of records."""

    def __init__(self, *, now: float, window_seconds: float) -> None:
        self.total = Span()
        self._began = now
        self._window = Span()
        self._window_began = now
        self._window_seconds = window_seconds

    def add(self, records: int, size: int) -> None:
        self._window.records += records
        self._window.bytes += size

    def add_latency(self, milliseconds: float) -> None:
        self._window.latencies.add(milliseconds)

    def close_window(self, now: float, *, is_last: bool = False) -> Span | None:
        """The window that has ended, or None."""
        elapsed = now - self._window_began
        if not is_last and elapsed < self._window_seconds:
            return None
        window, self._window, self._window_began = self._window, Span(), now
        window.seconds = elapsed
        self.total.records += window.records
        self.total.bytes += window.bytes
        self.total.latencies.samples.extend(window.latencies.samples)
        self.total.seconds = now - self._began
        return window


class Pace:
    """Limits work to a number of records a second, if given."""

    def __init__(self, per_second: float | None, *, now: float) -> None:
        self._per_second = per_second if per_second is not None and per_second > 0 else None
        self._began = now

    def wait_seconds(self, done: int, now: float) -> float:
        """Seconds to wait before the next record."""
        if self._per_second is None:
            return 0.0
        return max(0.0, self._began + done / self._per_second - now)
