"""The output of the pipeline, read by a consumer with read_committed: the latest record of each key."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple, Self

from penstock import Consumer
from penstock.cli.demo.revenue import REVENUE_TOPIC


class Window(NamedTuple):
    """The orders of one country in one window."""

    begin: str
    country: str
    orders: int
    cents: int


@dataclass
class Results:
    """The table `revenue`."""

    windows: dict[bytes, Window] = field(default_factory=dict)
    records: int = 0

    def take(self, key: bytes, value: bytes) -> None:
        row = json.loads(value)
        self.records += 1
        self.windows[key] = Window(row["from"], row["country"], row["orders"], row["cents"])

    @property
    def orders(self) -> int:
        return sum(window.orders for window in self.windows.values())

    @property
    def cents(self) -> int:
        return sum(window.cents for window in self.windows.values())

    def latest(self, count: int) -> list[tuple[str, dict[str, Window]]]:
        """The last windows, each with its countries."""
        grouped: dict[str, dict[str, Window]] = {}
        for window in self.windows.values():
            grouped.setdefault(window.begin, {})[window.country] = window
        return sorted(grouped.items())[-count:]


class ResultsReader:
    """Updates `results` on each `catch_up`."""

    def __init__(self, servers: str) -> None:
        self.results = Results()
        self._consumer = Consumer(
            REVENUE_TOPIC,
            bootstrap_servers=servers,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close(timeout=1.0)

    def catch_up(self) -> None:
        """Read all committed records."""
        for message in self._consumer.read(until="end").to_messages():
            assert message.key is not None
            assert message.value is not None
            self.results.take(message.key, message.value)
