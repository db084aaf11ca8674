"""Java Kafka Streams with processing.guarantee=exactly_once_v2: whoever is killed, each word is counted once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from compat.conftest import TRANSACTION_SETTINGS
from compat.streams.word_count import INPUT, OUTPUT, PARTITION_COUNT, WordCount
from harness.admin import create_topics
from harness.brokers import Broker

WORDS = ["all", "streams", "lead", "to", "the", "sea", "and", "the", "sea", "is", "not", "full"]
LINE_COUNT = 40
EXACTLY_ONCE = {
    "processing.guarantee": "exactly_once_v2",
    "producer.transaction.timeout.ms": "3000",
    "producer.reconnect.backoff.max.ms": "200",
    "consumer.reconnect.backoff.max.ms": "200",
}


@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_each_word_is_counted_once_whoever_is_killed(
    tmp_path: Path, make_broker: Callable[..., Broker], protocol: str
) -> None:
    # A KRaft broker that was killed is not let in again before its old session ends.
    session = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "200"}
    broker = make_broker(tmp_path / "broker", settings={**TRANSACTION_SETTINGS, **session})
    broker.start()
    application = None
    try:
        create_topics(broker.bootstrap, INPUT, OUTPUT, partitions=PARTITION_COUNT)
        application = WordCount(broker, tmp_path, protocol=protocol, settings=EXACTLY_ONCE)
        lines = Lines(broker.bootstrap)
        killed = application.start()
        application.start()
        application.wait_until_counted(lines.write(LINE_COUNT))

        lines.write(LINE_COUNT)
        killed.kill()
        killed.wait()
        application.start(number=0)
        application.wait_until_counted(lines.write(LINE_COUNT))

        lines.write(LINE_COUNT)
        broker.kill()
        broker.start()
        application.wait_until_counted(lines.write(LINE_COUNT))

        counts = Counter(word for line in lines.written for word in line.split())
        assert application.told == {word: list(range(1, count + 1)) for word, count in counts.items()}
    finally:
        if application is not None:
            application.close()
        broker.close()
    broker.check_output()


class Lines:
    """Writes lines to the input, each of another few of the words."""

    def __init__(self, bootstrap: str) -> None:
        self.written: list[str] = []
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
        )

    def write(self, count: int) -> list[str]:
        """Returns all that were written so far."""
        for _ in range(count):
            number = len(self.written)
            line = " ".join(WORDS[(number + at) % len(WORDS)] for at in range(1 + number % 5))
            self._producer.produce(INPUT, line, partition=number % PARTITION_COUNT)
            self.written.append(line)
        assert self._producer.flush(30) == 0
        return list(self.written)
