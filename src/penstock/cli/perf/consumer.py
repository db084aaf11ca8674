"""Consume as fast as possible."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.cli.clients import open_consumer
from penstock.cli.perf.measurement import Meter, Span

POLL_S = 0.1
POLL_RECORDS = 5_000

OnWindow = Callable[[Span, "Consumed"], None]


@dataclass(frozen=True, slots=True)
class ConsumeLoad:
    topics: tuple[str, ...]
    pattern: re.Pattern[str] | None
    count: int
    patience_ms: float = 10_000
    window_seconds: float = 5.0


@dataclass(slots=True)
class Consumed:
    total: Span
    joining_ms: float = 0.0  # until the group had assigned partitions
    joining_ms_in_window: float = 0.0
    is_complete: bool = True


class _RebalanceTimer:
    """A rebalance listener that sums up how long rebalances took."""

    def __init__(self, consumed: Consumed) -> None:
        self._consumed = consumed
        self._began = time.perf_counter()

    def on_partitions_revoked(self, partitions: object, /) -> None:
        self._began = time.perf_counter()

    def on_partitions_lost(self, partitions: object, /) -> None:
        self._began = time.perf_counter()

    def on_partitions_assigned(self, partitions: object, /) -> None:
        took_ms = (time.perf_counter() - self._began) * 1000
        self._consumed.joining_ms += took_ms
        self._consumed.joining_ms_in_window += took_ms


def consume(load: ConsumeLoad, settings: Mapping[str, object], on_window: OnWindow) -> Consumed:
    """Consume `count` records, or stop when none has come for `patience_ms`."""
    with open_consumer(settings) as consumer:
        clock = time.perf_counter
        meter = Meter(now=clock(), window_seconds=load.window_seconds)
        consumed = Consumed(meter.total)
        listener = _RebalanceTimer(consumed)
        if load.pattern is not None:
            consumer.subscribe(pattern=load.pattern, listener=listener)
        else:
            consumer.subscribe(load.topics, listener=listener)
        count = 0
        last = clock()
        while count < load.count:
            messages = consumer.poll(timeout=POLL_S, max_records=min(POLL_RECORDS, load.count - count))
            now = clock()
            if messages:
                last = now
                count += len(messages)
                meter.add(
                    len(messages),
                    sum(len(message.value or b"") + len(message.key or b"") for message in messages),
                )
            elif (now - last) * 1000 > load.patience_ms:
                consumed.is_complete = False
                break
            if (window := meter.close_window(now)) is not None:
                on_window(window, consumed)
                consumed.joining_ms_in_window = 0.0
        meter.close_window(clock(), is_last=True)
    return consumed
