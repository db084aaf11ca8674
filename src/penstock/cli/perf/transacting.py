"""One transaction after another: how many a second, and how long each takes to commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import islice

from penstock.cli.ending import producing
from penstock.cli.perf.measuring import Meter, Span
from penstock.cli.perf.producing import random_payloads

Told = Callable[[Span, int], None]


def transact(
    topic: str,
    *,
    count: int,
    records_each: int,
    size: int,
    settings: Mapping[str, object],
    told: Told,
    window_seconds: float = 1.0,
) -> Span:
    """Commit `count` transactions of so many records; of the sum, `records` are transactions."""
    payloads = random_payloads(size)
    with producing(settings) as producer:
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
                told(window, number)
        meter.close_window(clock(), is_last=True)
    return meter.total
