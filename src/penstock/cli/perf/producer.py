"""Produce as fast as possible, or at a rate.

Latency is the time from `send` to the acknowledgement. Only the last record of each chunk is timed: a callback for
every record would slow the producer down. Chunks are sized for `SAMPLES` samples.
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

from penstock.cli.clients import open_producer
from penstock.cli.failures import Refusal
from penstock.cli.perf.measurement import Meter, Pace, Span

if TYPE_CHECKING:
    from penstock import Producer

SAMPLES = 20_000
CHUNK_RECORDS_MAX = 100  # sent between two reads of the clock
LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
DISTINCT_PAYLOADS = 1_000  # reused, so that creating payloads is not measured

OnWindow = Callable[[Span, int], None]
"""Gets a window and the total number of records sent."""


@dataclass(frozen=True, slots=True)
class ProduceLoad:
    topic: str
    count: int
    per_second: float | None = None
    warm_up: int = 0  # first records, excluded from the steady state
    transaction_ms: float | None = None
    window_seconds: float = 5.0


@dataclass(slots=True)
class Produced:
    total: Span
    steady: Span | None  # without the warm-up, if there was one


def random_payloads(size: int, *, seed: int = 0) -> Iterator[bytes]:
    """Random letters, repeated."""
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
    """Values from a file, in random order."""
    with open(path, encoding="utf-8") as file:
        found = [part.encode() for part in file.read().split(delimiter)]
    while found and not found[-1]:  # after the last delimiter
        found.pop()
    if not found:
        raise Refusal(f"{path} contains no records")
    rng = random.Random(seed)
    while True:
        yield rng.choice(found)


def produce(
    load: ProduceLoad, payloads: Iterator[bytes], settings: Mapping[str, object], on_window: OnWindow
) -> Produced:
    """Send all records, and return when all are acknowledged."""
    chunk_records = min(max(1, load.count // SAMPLES), CHUNK_RECORDS_MAX)
    latencies: deque[float] = deque()  # filled by the thread of the producer
    with open_producer(settings) as producer:
        producer.partitions_for(load.topic)  # connect before measuring
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
                on_window(window, sent)
            if (wait := pace.wait_seconds(sent, now)) > 0:
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
    """Keeps a transaction open for some time, commits it, and begins the next."""

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
