"""Commit one transaction after another: rate and latency."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import islice

from penstock.cli.clients import open_producer
from penstock.cli.perf.measurement import Meter, Span
from penstock.cli.perf.producer import random_payloads

OnWindow = Callable[[Span, int], None]


def commit_transactions(
    topic: str,
    *,
    count: int,
    records_each: int,
    size: int,
    settings: Mapping[str, object],
    on_window: OnWindow,
    window_seconds: float = 1.0,
) -> Span:
    """Commit `count` transactions. In the result, `records` counts transactions."""
    payloads = random_payloads(size)
    with open_producer(settings) as producer:
        producer.partitions_for(topic)
        clock = time.perf_counter
        meter = Meter(now=clock(), window_seconds=window_seconds)
        for number in range(1, count + 1):
            began = clock()
            with producer.transaction():
                for value in islice(payloads, records_each):
                    producer.send(topic, value)
            now = clock()
            meter.add(1, records_each * size)
            meter.add_latency((now - began) * 1000)
            if (window := meter.close_window(now)) is not None:
                on_window(window, number)
        meter.close_window(clock(), is_last=True)
    return meter.total
