"""Penstock's interpreter and Kafka Streams' own test driver give the same results for the same random records.

The comparison covers what readers of a table can distinguish. Kafka Streams also writes deletions of missing keys,
and deletes a session right before it writes it again; such records are removed on both sides. Where its result for
very late records is undefined (stream joins drop them by the size of a store's segments), none are sent.
"""

from __future__ import annotations

import itertools
import json
import random
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from compat.clients.java import JVM_OPTIONS, class_path
from compat.streams.topologies import TOPOLOGIES
from harness.brokers import tool
from penstock.streams import Builder
from penstock.streams.interpret import Interpreter

pytestmark = pytest.mark.penstock_only("uses no broker")

RUNS = 5
RECORDS = 40
LAG_MS = 2
JOINED = ("stream-join", "stream-left-join", "stream-outer-join")
REPEATING = ("versioned-table-outer-join",)  # when a missing key is deleted
WINDOWED = ("unlimited", "tumbling", "hopping", "sliding", "sessions", "cogroup-tumbling")

Sent = tuple[str, "str | None", "str | None", int]
Written = tuple["str | None", "str | None", int]


class KafkaStreams:
    """Topologies of Kafka Streams in one JVM."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [tool("java"), *JVM_OPTIONS, "-cp", class_path(), "StreamTopologies"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(self, topology: str, records: list[Sent]) -> list[Written]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"topology": topology, "records": records}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, "the JVM exited"
        return [tuple(record) for record in json.loads(line)]

    def close(self) -> None:
        self._process.communicate(timeout=30)


@pytest.fixture(scope="module")
def kafka_streams() -> Iterator[KafkaStreams]:
    running = KafkaStreams()
    yield running
    running.close()


def ours(name: str, records: list[Sent]) -> list[Written]:
    app = Builder()
    TOPOLOGIES[name](app)
    interpreter = Interpreter(app.topology)
    for topic, key, value, timestamp_ms in records:
        if interpreter.reads(topic):
            interpreter.feed(topic, _encoded(key), _encoded(value), timestamp_ms)
    written = interpreter.outputs.get("out", [])
    return [(_hex(output.key), _hex(output.value), output.timestamp_ms) for output in written]


def sent(name: str, chance: random.Random) -> list[Sent]:
    """Records of two topics with rising timestamps, sometimes going back."""
    time_ms = chance.randrange(30)
    records: list[Sent] = []
    present: set[tuple[str, str | None]] = set()
    for _ in range(RECORDS):
        time_ms += chance.choice([0, 1, 1, 2, 3, 5, 9])
        key = chance.choice(["a", "b", "c", None] if chance.random() < 0.2 else ["a", "b", "c"])
        topic = chance.choice(["left", "right"] if "right" in _topics(name) else ["left"])
        value: str | None = "".join(chance.choice("abcx") for _ in range(chance.randint(1, 2)))
        if chance.random() < 0.2 and (topic, key) in present and _takes_none(name):
            value = None
        (present.discard if value is None else present.add)((topic, key))
        # A little late, or far too late: in between, the stores of Kafka Streams drop records unpredictably.
        is_late = chance.random() < 0.05 and name not in (*JOINED, "cogroup-tumbling")
        lag_ms = 60 if is_late else chance.randint(0, LAG_MS)
        if "versioned" in name and not is_late:
            lag_ms = chance.choice([0, 0, 4, 10, 20, 30])
        at_ms = max(0, time_ms - lag_ms)
        if "versioned" in name:
            # If a value and its deletion have the same timestamp, Kafka Streams forgets both, and the previous value
            # is the latest.
            taken = {record[3] for record in records if record[:2] == (topic, key)}
            at_ms = next(free_ms for free_ms in itertools.count(at_ms) if free_ms not in taken)
        records.append((topic, key, value, at_ms))
    # Flush everything that waits, so that the result does not depend on where the records end.
    return [
        *records,
        *((topic, "z", "z", time_ms + 1000) for topic in ("left", "right") if topic in _topics(name)),
    ]


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_results_are_those_of_kafka_streams(name: str, kafka_streams: KafkaStreams) -> None:
    for seed in range(RUNS):
        records = sent(name, random.Random(f"{name} {seed}"))
        expected = kafka_streams.run(name, records)
        assert told_apart(name, ours(name, records)) == told_apart(name, expected), (seed, records)


def told_apart(name: str, written: list[Written]) -> dict[Any, list[Any]]:
    """The records of each key, without those that change nothing in a table."""
    by_key: dict[Any, list[Any]] = defaultdict(list)
    is_table = not name.startswith(("stream", "global", "stateless", "repartition", "processor"))
    for key, value, timestamp_ms in written:
        line = by_key[key]
        if is_table and value is None and (not line or line[-1][0] is None):
            continue
        if name in REPEATING and line and line[-1][0] == value:
            continue
        if name.startswith("sessions") and line and line[-1][0] is None:
            line.pop()
        line.append((value, timestamp_ms))
    # When Kafka Streams emits unmatched records is undefined.
    return {key: sorted(line) if name in JOINED else line for key, line in by_key.items() if line}


def _takes_none(name: str) -> bool:
    """Windows of Kafka Streams aggregate None too, though its documentation says otherwise."""
    return not name.startswith(WINDOWED) and name not in ("group-by", "words", "repartition")


def _topics(name: str) -> list[str]:
    app = Builder()
    TOPOLOGIES[name](app)
    return Interpreter(app.topology).topics


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()
