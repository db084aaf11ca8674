"""The load of `harness.load` with Penstock's own producer."""

from __future__ import annotations

from harness.load import BURST_RECORDS, FLUSH_SECONDS, KEY_COUNT, PAUSE_SECONDS, NumberedLoad, Offset
from penstock import Consumer, Producer, Receipt


class OwnLoad(NumberedLoad):
    """Writes with Penstock's own producer."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(bootstrap, topic)
        self._refused: list[BaseException] = []
        self._producer = Producer(
            bootstrap, linger_ms=1, delivery_timeout_ms=60_000, request_timeout_ms=5_000
        )

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(2 * FLUSH_SECONDS)
        assert not self._thread.is_alive(), "the producer did not stop"
        if self._refused:
            raise self._refused[0]

    def stored(self) -> dict[Offset, int]:
        """The records of the topic."""
        return self.stored_in(self._bootstrap, self._topic)

    @staticmethod
    def stored_in(bootstrap: str, topic: str) -> dict[Offset, int]:
        with Consumer(topic, bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
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
