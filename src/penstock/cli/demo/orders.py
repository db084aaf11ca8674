"""Events of the demo: a table of customers, and a stream of their orders.

It counts the orders and sums the amounts: the result of the pipeline is compared with them.
"""

from __future__ import annotations

import json
import random
import threading
import time
from types import TracebackType
from typing import Self

from penstock import Producer

CUSTOMERS_TOPIC = "customers"
ORDERS_TOPIC = "orders"
CUSTOMERS = 400
COUNTRIES = ("AT", "CH", "DE", "FR", "IT", "NO")
ITEMS = ("valve", "turbine", "sluice gate", "trash rack", "surge tank", "draft tube")
CHANNELS = (b"web", b"app", b"shop")
PER_SECOND = 2_000
TICK_SECONDS = 0.1
FLUSH_SECONDS = 30.0


class Orders:
    """Produces orders at a constant rate in a thread, until `finish`."""

    def __init__(self, servers: str, *, seed: int = 7) -> None:
        self._producer = Producer(servers, acks="all", linger_ms=20)
        self._rng = random.Random(seed)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write, name="orders", daemon=True)
        self._error: Exception | None = None
        self.count = 0
        self.cents = 0

    def __enter__(self) -> Self:
        self._write_customers()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join()
        self._producer.close(timeout=FLUSH_SECONDS if kind is None else 1.0)

    def finish(self) -> None:
        """Stop producing. On return every order is acknowledged; otherwise the error is raised."""
        self._is_over.set()
        self._thread.join()
        self.check()

    def check(self) -> None:
        if self._error is not None:
            raise RuntimeError(f"cannot produce an order: {self._error}") from self._error

    def _write_customers(self) -> None:
        for number in range(CUSTOMERS):
            customer = {"name": f"Customer {number}", "country": self._rng.choice(COUNTRIES)}
            self._producer.send(CUSTOMERS_TOPIC, json.dumps(customer), key=f"customer-{number}")
        self._producer.flush(timeout=FLUSH_SECONDS)

    def _write(self) -> None:
        try:
            due = time.monotonic()
            while not self._is_over.is_set():
                for _ in range(int(PER_SECOND * TICK_SECONDS)):
                    self._send_one()
                # A slow machine lowers the rate instead of catching up forever.
                due = max(due + TICK_SECONDS, time.monotonic() - 1.0)
                self._is_over.wait(max(0.0, due - time.monotonic()))
            self._producer.flush(timeout=FLUSH_SECONDS)
        except Exception as error:
            self._error = error

    def _send_one(self) -> None:
        cents = self._rng.randrange(100, 9_000)
        order = {"order": self.count, "item": self._rng.choice(ITEMS), "cents": cents}
        self._producer.send(
            ORDERS_TOPIC,
            json.dumps(order),
            key=f"customer-{self._rng.randrange(CUSTOMERS)}",
            headers={"channel": self._rng.choice(CHANNELS)},
        )
        self.count += 1
        self.cents += cents
