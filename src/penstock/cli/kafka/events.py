"""Events of the verifiable tools: one JSON object per line, as Kafka's system tests read them."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.runtime.signals import signals_to_handle


class EventPrinter:
    """Prints events, one per line, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def print(self, name: str, **facts: object) -> None:
        event = {"timestamp": time.time_ns() // 1_000_000, "name": name, **facts}
        line = json.dumps(event, separators=(",", ":"), ensure_ascii=False) + "\n"
        with self._lock:
            sys.stdout.write(line)
            sys.stdout.flush()


@contextmanager
def stopped_by_signals() -> Iterator[Callable[[], bool]]:
    """Yields a function that returns whether SIGTERM or SIGINT has come: these tools shut down cleanly."""
    is_stopped = threading.Event()
    numbers = signals_to_handle(signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, lambda *_: is_stopped.set()) for number in numbers}
    try:
        yield is_stopped.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def shown(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")
