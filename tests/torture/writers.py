"""Producers that write sequenced records through every crash, and keep what the broker acknowledged.

A value is `writer:sequence`. Acknowledged records are kept with their offset.

- `IdempotentWriter` (librdkafka) retries itself: in the end every record is acknowledged, once, in order.
- `RawWriter` never retries: a request without a response may have been written or not.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Producer

from harness import wire

RAW_REQUESTS_IN_FLIGHT = 5
IDEMPOTENT_RECORDS_IN_FLIGHT = 1_000
RECONNECT_SECONDS = 0.02
GIVE_UP_SECONDS = 120.0


@dataclass(slots=True)
class Ledger:
    """What is known of the records of one partition."""

    partition: int
    sent: int = 0
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    """Offset to value, as acknowledged."""
    errors: list[str] = field(default_factory=list)
    """Responses that a producer must never get, whatever happens to the broker."""

    @property
    def acknowledged_end(self) -> int:
        """One past the highest acknowledged offset."""
        return max(self.acknowledged, default=-1) + 1


class RawWriter:
    """Requests of a few records with acks=all to one partition, several in flight on one connection."""

    is_complete = False  # a record whose response was lost may be missing

    def __init__(self, port: int, topic: str, partition: int, seed: int) -> None:
        self.ledger = Ledger(partition)
        self._port = port
        self._topic = topic
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._idle = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"raw-{partition}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(GIVE_UP_SECONDS)
        assert not self._thread.is_alive()

    def settle(self) -> None:
        """After the broker died: wait until all its responses are in the ledger."""
        assert self._idle.wait(GIVE_UP_SECONDS)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._idle.set()
            try:
                connection = wire.WireConnection(self._port)
            except OSError:
                self._stop.wait(RECONNECT_SECONDS)
                continue
            self._idle.clear()
            with connection:
                try:
                    self._write(connection)
                except (OSError, EOFError):
                    continue
        self._idle.set()

    def _write(self, connection: wire.WireConnection) -> None:
        waiting: deque[list[bytes]] = deque()
        try:
            while not self._stop.is_set():
                values = [self._next_value() for _ in range(self._random.randint(1, 20))]
                batch = wire.record_batch(values, timestamp_ms=int(time.time() * 1000))
                waiting.append(values)
                connection.send(
                    wire.PRODUCE,
                    wire.PRODUCE_VERSION,
                    wire.produce_body(self._topic, self.ledger.partition, batch),
                )
                if len(waiting) == RAW_REQUESTS_IN_FLIGHT:
                    self._take_answer(connection, waiting)
        finally:
            # The broker may be dead, but its responses are still in the socket.
            while waiting:
                self._take_answer(connection, waiting)

    def _take_answer(self, connection: wire.WireConnection, waiting: deque[list[bytes]]) -> None:
        _correlation_id, payload = connection.receive()
        values = waiting.popleft()
        error_code, base_offset = wire.parse_produce_response(payload)
        if error_code == 0:
            self.ledger.acknowledged |= dict(enumerate(values, base_offset))

    def _next_value(self) -> bytes:
        self.ledger.sent += 1
        return b"raw:%d" % (self.ledger.sent - 1)


class IdempotentWriter:
    """One idempotent producer for several partitions, each with its own sequence."""

    is_complete = True

    def __init__(self, port: int, topic: str, partitions: list[int], seed: int) -> None:
        self.ledgers = {partition: Ledger(partition) for partition in partitions}
        self._topic = topic
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="idempotent", daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{port}",
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "batch.num.messages": 50,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "message.timeout.ms": int(GIVE_UP_SECONDS * 1000),
                "socket.timeout.ms": 5_000,
                "error_cb": self._take_error,
                "log_level": 0,
            }
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop after every record is acknowledged."""
        self._stop.set()
        self._thread.join(GIVE_UP_SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._producer.poll(0.001)
            if len(self._producer) < IDEMPOTENT_RECORDS_IN_FLIGHT:
                for ledger in self.ledgers.values():
                    for _ in range(self._random.randint(0, 10)):
                        self._send(ledger)
        left = self._producer.flush(GIVE_UP_SECONDS)
        if left:
            next(iter(self.ledgers.values())).errors.append(f"{left} records were never acknowledged")

    def _send(self, ledger: Ledger) -> None:
        value = b"idempotent:%d" % ledger.sent
        self._producer.produce(
            self._topic, value, partition=ledger.partition, on_delivery=self._take_delivery
        )
        ledger.sent += 1

    def _take_delivery(self, error: Any, message: Any) -> None:
        ledger = self.ledgers[message.partition()]
        if error is not None:
            ledger.errors.append(f"{message.value()!r} was rejected: {error}")
        elif message.offset() >= 0:
            ledger.acknowledged[message.offset()] = message.value()

    def _take_error(self, error: Any) -> None:
        if error.fatal():
            next(iter(self.ledgers.values())).errors.append(f"fatal: {error}")
