"""WordCountDemo, the example of Kafka Streams: instances that start and stop, and the counts that they write.

Caching is off, so every word read gives one count: a word written n times gives 1 to n.
"""

from __future__ import annotations

import struct
import subprocess
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from compat.clients.java import JVM_OPTIONS, class_path
from compat.groups.state import topic_ends
from harness.admin import new_name
from harness.brokers import Broker, tool
from harness.waiting import wait_until

DEMO = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
INPUT = "streams-plaintext-input"
OUTPUT = "streams-wordcount-output"
PARTITION_COUNT = 2
COUNT_SECONDS = 90.0  # two JVMs start, or a killed one's session expires, on a busy machine
STOP_SECONDS = 30.0
WORDS = ["all", "streams", "lead", "to", "the", "sea", "and", "the", "sea", "is", "not", "full"]
EXACTLY_ONCE = {
    "processing.guarantee": "exactly_once_v2",
    "producer.transaction.timeout.ms": "3000",
    "producer.reconnect.backoff.max.ms": "200",
    "consumer.reconnect.backoff.max.ms": "200",
}


class WordCount:
    """One application of WordCountDemo: any number of instances, and the counts that they write."""

    def __init__(
        self, cluster: Broker, folder: Path, *, protocol: str, settings: Mapping[str, str] | None = None
    ) -> None:
        self.id = new_name(f"word-count-{protocol}")
        self.counts_by_word: dict[str, list[int]] = defaultdict(list)
        """The counts of each word, as they were written."""
        self._bootstrap = cluster.bootstrap
        self._folder = folder
        self._protocol = protocol
        self._settings = dict(settings or {})
        self._processes: list[subprocess.Popen[bytes]] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        ends = topic_ends(cluster.bootstrap, OUTPUT, PARTITION_COUNT)
        self._consumer.assign([TopicPartition(OUTPUT, number, offset) for number, offset in ends.items()])

    @property
    def counts(self) -> dict[str, int]:
        return {word: counts[-1] for word, counts in self.counts_by_word.items()}

    def start(self, *, number: int | None = None) -> subprocess.Popen[bytes]:
        """Start another instance, or one that takes over the state directory of the instance with that number."""
        number = len(self._processes) if number is None else number
        settings = {
            "application.id": self.id,
            "bootstrap.servers": self._bootstrap,
            "state.dir": str(self._folder / f"state-{number}"),
            "commit.interval.ms": "100",
            "group.protocol": self._protocol,
            **self._settings,
        }
        if self._protocol == "classic":
            settings |= {"session.timeout.ms": "6000", "heartbeat.interval.ms": "200"}
        properties = self._folder / f"instance-{number}.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        with (self._folder / f"instance-{number}.txt").open("ab") as output:
            process = subprocess.Popen(
                [tool("java"), *JVM_OPTIONS, "-cp", class_path(), DEMO, str(properties)],
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._processes.append(process)
        return process

    def read(self, wait_s: float) -> int:
        """Read the new output; the number of counts."""
        messages = self._consumer.consume(100, timeout=wait_s)
        found = [message for message in messages if message.error() is None]
        for message in found:
            self.counts_by_word[message.key().decode()].append(struct.unpack(">q", message.value())[0])
        return len(found)

    def wait_until_counted(self, lines: list[str]) -> None:
        """The last count of every word is right."""
        expected = Counter(word for line in lines for word in line.split())

        def is_counted() -> bool:
            self.read(0.1)
            return self.counts == expected

        try:
            wait_until(is_counted, f"{self.id} counted {len(lines)} lines", seconds=COUNT_SECONDS)
        except AssertionError as exc:
            output = {path.name: path.read_text()[-2000:] for path in self._folder.glob("instance-*.txt")}
            raise AssertionError(f"{exc}; found {self.counts}, expected {dict(expected)}; {output}") from exc

    def close(self) -> None:
        self._consumer.close()
        for process in self._processes:
            if process.poll() is None:
                stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


class Lines:
    """Writes lines to the input, each with other words."""

    def __init__(self, bootstrap: str) -> None:
        self.written: list[str] = []
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
        )

    def write(self, count: int) -> list[str]:
        """All lines so far."""
        for _ in range(count):
            number = len(self.written)
            line = " ".join(WORDS[(number + at) % len(WORDS)] for at in range(1 + number % 5))
            self._producer.produce(INPUT, line, partition=number % PARTITION_COUNT)
            self.written.append(line)
        assert self._producer.flush(30) == 0
        return list(self.written)


def each_once(lines: Sequence[str]) -> dict[str, list[int]]:
    """The counts of every word if none is lost or counted twice."""
    counts = Counter(word for line in lines for word in line.split())
    return {word: list(range(1, count + 1)) for word, count in counts.items()}
