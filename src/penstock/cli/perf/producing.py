"""A producer at full speed, or at so many records a second.

A latency is the time from `send` to the broker's answer. Not every record is timed: a callback for each would measure
the callbacks. So the last of each chunk is, and a chunk is as large as it may be for `SAMPLES` of them.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from penstock.cli.ending import producing
from penstock.cli.failures import Refusal
from penstock.cli.perf.measuring import Meter, Pace, Span

if TYPE_CHECKING:
    from penstock import Producer

SAMPLES = 20_000
CHUNK_RECORDS_MAX = 100  # sent between two looks at the clock
LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
DISTINCT_PAYLOADS = 1_000  # so that making payloads is not what is measured

Told = Callable[[Span, int], None]
"""A window, and how many records have been sent in all."""


@dataclass(frozen=True, slots=True)
class ProduceLoad:
    topic: str
    count: int
    per_second: float | None = None
    warm_up: int = 0  # records at the beginning that are left out of the steady state
    transaction_ms: float | None = None
    window_seconds: float = 5.0


@dataclass(slots=True)
class Produced:
    total: Span
    steady: Span | None  # without the warm-up, where there was one


def random_payloads(size: int, *, seed: int = 0) -> Iterator[bytes]:
    """Values of letters, over and over."""
    rng = random.Random(seed)
    made = [bytes(rng.choices(LETTERS, k=size)) for _ in range(DISTINCT_PAYLOADS)]
    while True:
        yield from made


def counting_payloads() -> Iterator[bytes]:
    number = 0
    while True:
        yield b"%d" % number
        number += 1


def payloads_of_file(path: str, *, delimiter: str = "\n", seed: int = 0) -> Iterator[bytes]:
    """Values from a file, by chance."""
    with open(path, encoding="utf-8") as file:
        found = [part.encode() for part in file.read().split(delimiter)]
    while found and not found[-1]:  # what follows the last delimiter
        found.pop()
    if not found:
        raise Refusal(f"{path} has no records in it")
    rng = random.Random(seed)
    while True:
        yield rng.choice(found)


def produce(
    load: ProduceLoad, payloads: Iterator[bytes], settings: Mapping[str, object], told: Told
) -> Produced:
    """Send all records; returns when all are answered."""
    chunk_records = min(max(1, load.count // SAMPLES), CHUNK_RECORDS_MAX)
    latencies: deque[float] = deque()  # filled by the producer's thread
    with producing(settings) as producer:
        producer.partitions_for(load.topic)  # so that connecting is not what is measured
        send, clock = producer.send, time.perf_counter
        meter = Meter(now=clock(), window_seconds=load.window_seconds)
        pace = Pace(load.per_second, now=clock())
        steady: Meter | None = None
        transaction = _Transactions(producer, load.transaction_ms) if load.transaction_ms else None
        sent = 0
        while sent < load.count:
            if transaction is not None:
                transaction.step(clock())
            chunk = list(islice(payloads, min(chunk_records, load.count - sent)))
            for value in chunk:
                receipt = send(load.topic, value)
            receipt.add_done_callback(_timer(clock(), latencies))
            sent += len(chunk)
            size = sum(map(len, chunk))
            meter.add(len(chunk), size)
            if steady is not None:
                steady.add(len(chunk), size)
            elif load.warm_up and sent >= load.warm_up:
                steady = Meter(now=clock(), window_seconds=load.window_seconds)
            now = clock()
            _take(latencies, meter, steady)
            if (window := meter.close_window(now)) is not None:
                told(window, sent)
            if (wait := pace.is_ahead(sent, now)) > 0:
                time.sleep(wait)
        if transaction is not None:
            transaction.end()
        producer.flush()
        _take(latencies, meter, steady)
        meter.close_window(clock(), is_last=True)
        if steady is not None:
            steady.close_window(clock(), is_last=True)
    return Produced(meter.total, None if steady is None else steady.total)


class _Transactions:
    """Holds a transaction open for some time, commits it, and begins the next."""

    def __init__(self, producer: Producer, duration_ms: float) -> None:
        self._producer = producer
        self._duration_s = duration_ms / 1000
        self._open = ExitStack()
        self._began: float | None = None

    def step(self, now: float) -> None:
        if self._began is not None and now - self._began >= self._duration_s:
            self.end()
        if self._began is None:
            self._open.enter_context(self._producer.transaction())
            self._began = now

    def end(self) -> None:
        self._open.close()
        self._began = None


def _timer(began: float, latencies: deque[float]) -> Callable[[object], None]:
    return lambda receipt: latencies.append((time.perf_counter() - began) * 1000)


def _take(latencies: deque[float], meter: Meter, steady: Meter | None) -> None:
    while latencies:
        milliseconds = latencies.popleft()
        meter.add_latency(milliseconds)
        if steady is not None:
            steady.add_latency(milliseconds)
