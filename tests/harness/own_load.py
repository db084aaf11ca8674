"""The load of `harness.load`, by Penstock's own producer: numbered records, and where each of them lies."""

from __future__ import annotations

import threading
from types import TracebackType

from harness.load import BURST_RECORDS, FLUSH_SECONDS, KEY_COUNT, PAUSE_SECONDS, Offset
from harness.waiting import wait_until
from penstock import Consumer, Producer, Receipt


class OwnLoad:
    """Writes to a topic until it is stopped; `written` says which number lies where."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.written: dict[Offset, int] = {}
        self._bootstrap = bootstrap
        self._topic = topic
        self._refused: list[BaseException] = []
        self._stopping = threading.Event()
        self._producer = Producer(
            bootstrap, linger_ms=1, delivery_timeout_ms=60_000, request_timeout_ms=5_000
        )
        self._thread = threading.Thread(target=self._run, name="own-load", daemon=True)

    def __enter__(self) -> OwnLoad:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Returns when all that was written is acknowledged."""
        self._stopping.set()
        self._thread.join(2 * FLUSH_SECONDS)
        assert not self._thread.is_alive(), "the producer does not end"
        if self._refused:
            raise self._refused[0]

    def wait_for_more(self, *, seconds: float = 60) -> None:
        """Until records are acknowledged again, which a broker that starts may keep waiting."""
        before = len(self.written)
        wait_until(lambda: len(self.written) > before, "more records are acknowledged", seconds=seconds)

    def stored(self) -> dict[Offset, int]:
        """What really lies in the topic."""
        with Consumer(
            self._topic, bootstrap_servers=self._bootstrap, isolation_level="read_committed"
        ) as consumer:
            messages = consumer.read(until="end").to_messages()
        return {(message.partition, message.offset): int(message.value) for message in messages}

    def _run(self) -> None:
        number = 0
        try:
            with self._producer as producer:
                while not self._stopping.wait(PAUSE_SECONDS):
                    for _ in range(BURST_RECORDS):
                        key = b"key-%d" % (number % KEY_COUNT)
                        receipt = producer.send(self._topic, b"%d" % number, key=key)
                        receipt.add_done_callback(lambda receipt, number=number: self._take(receipt, number))
                        number += 1
        except BaseException as error:
            self._refused.append(error)

    def _take(self, receipt: Receipt, number: int) -> None:
        error = receipt.exception()
        if error is not None:
            self._refused.append(error)
        else:
            delivery = receipt.result()
            self.written[delivery.partition, delivery.offset] = number


def check_each_once_and_in_order(stored: dict[Offset, int], written: dict[Offset, int]) -> None:
    """What an idempotent producer promises, whatever happens to its brokers."""
    assert stored == written
    assert len(set(stored.values())) == len(stored)
    for partition in {partition for partition, _ in stored}:
        numbers = [number for (each, _), number in sorted(stored.items()) if each == partition]
        assert numbers == sorted(numbers)
