"""Pipelines on one Penstock broker: our source and sink compared with Spark's own Kafka connector, and Penstock Streams
compared with Kafka Streams.

Each job runs in its own process (`bench.spark_runs`) with its own Spark session, one after another. Word counts run at
two sizes, and the rate is that of the difference, so that startup time is excluded.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.line import Group, Line
from bench.peers import JARS, ROOT, Peer
from bench.wire import new_name
from penstock import Admin, Producer, errors

RUN_LIMIT_S = 600
READ_ROWS, VALUE_BYTES = 4_000_000, 100
PARTITIONS = 4
SMALL_ROWS = 20_000
LINE_WORDS = 10
DEMO = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
POLL_S = 0.1


def run(what: str, *arguments: str) -> float:
    """One job in a fresh process; the figure that it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.spark_runs", what, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT_S,
    )
    if done.returncode != 0:
        raise RuntimeError(
            f"{what} {' '.join(arguments)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
        )
    figure: float = json.loads(done.stdout.splitlines()[-1])
    return figure


def _fill(peer: Peer, topic: str, rows: int, *, partitions: int = PARTITIONS) -> None:
    bootstrap = f"127.0.0.1:{peer.port}"
    with Admin(bootstrap) as admin:
        admin.create_topic(topic, partitions=partitions)
    value = b"x" * VALUE_BYTES
    with Producer(bootstrap) as producer:
        for row in range(rows):
            producer.send(topic, value, key=str(row % 100_000))


def _make(peer: Peer, topic: str, *, partitions: int = PARTITIONS) -> str:
    with Admin(f"127.0.0.1:{peer.port}") as admin:
        admin.create_topic(topic, partitions=partitions)
    return topic


def _drop(peer: Peer, *topics: str) -> None:
    with Admin(f"127.0.0.1:{peer.port}") as admin:
        admin.delete_topics(topics)


def reads(peer: Peer) -> dict[str, float]:
    """A whole topic as a batch and as a stream, and as a batch on one core."""
    topic, port = new_name("spark"), str(peer.port)
    _fill(peer, topic, READ_ROWS)
    figures = {}
    for what, line in (("read", READ), ("stream", STREAM)):
        theirs, ours = run(what, "kafka", port, topic), run(what, "penstock", port, topic)
        figures |= {f"{line}, connector": theirs, line: ours, f"{line}, over the connector": ours / theirs}
    figures[CORES] = figures[READ] / run("read", "penstock", port, topic, "1")
    _drop(peer, topic)
    return figures


def writes(peer: Peer) -> dict[str, float]:
    """Rows of key and value into a topic."""
    port, topics = str(peer.port), [_make(peer, new_name("spark")) for _ in range(3)]
    theirs = run("write", "kafka", port, topics[0])
    ours = run("write", "penstock", port, topics[1])
    exactly = run("write", "penstock", port, topics[2], "exactly-once")
    _drop(peer, *topics)
    return {
        f"{WRITE}, connector": theirs,
        WRITE: ours,
        f"{WRITE}, exactly once": exactly,
        f"{WRITE}, over the connector": ours / theirs,
        f"{WRITE}, exactly once, over the connector's at least once": exactly / theirs,
    }


def small_batches(peer: Peer) -> dict[str, float]:
    """The cost of a micro-batch of 100 rows from topic to topic, compared with an empty micro-batch of Spark."""
    topic, port = new_name("small"), str(peer.port)
    _fill(peer, topic, SMALL_ROWS, partitions=2)
    _make(peer, f"{topic}-out", partitions=2)
    empty = run("small-batches", "rate", port, topic)
    theirs, ours = run("small-batches", "kafka", port, topic), run("small-batches", "penstock", port, topic)
    _drop(peer, topic, f"{topic}-out")
    return {
        f"{SMALL}, Spark's own": empty,
        f"{SMALL}, connector": theirs,
        SMALL: ours,
        f"{SMALL}, added to Spark's own": ours - empty,
    }


@dataclass(frozen=True, slots=True)
class Count:
    """A word count. The rate is that of the lines between `few` and `many`, which are enough to exceed the variation
    of the startup time."""

    line: str
    vocabulary: int
    few: int
    java_many: int
    own_many: int


def word_count(peer: Peer) -> dict[str, float]:
    """Words per second that are counted and written, by both."""
    figures = {}
    for count in (
        Count(COUNT, 1_000, 50_000, 1_050_000, 10_050_000),
        Count(COUNT_1M, 1_000_000, 50_000, 550_000, 1_050_000),
    ):
        theirs = _rate(lambda topic: _java_word_count(peer, topic), peer, count, count.java_many)
        ours = _rate(
            lambda topic: run("word-count", "penstock", str(peer.port), topic), peer, count, count.own_many
        )
        figures |= {
            f"{count.line}, Kafka Streams": theirs,
            count.line: ours,
            f"{count.line}, over Kafka Streams": ours / theirs,
        }
    return figures


def _rate(job: Callable[[str], float], peer: Peer, count: Count, many: int) -> float:
    took_s = []
    for lines in (count.few, many):
        topic = _fill_with_words(peer, lines, count.vocabulary)
        took_s.append(job(topic))
        _drop(peer, topic)
    return (many - count.few) * LINE_WORDS / (took_s[1] - took_s[0])


def _fill_with_words(peer: Peer, lines: int, vocabulary: int) -> str:
    # The demo of Kafka Streams knows its topics by name.
    topic = _make(peer, INPUT, partitions=2)
    rng = random.Random(7)
    words = [f"word{number}" for number in range(vocabulary)]
    # Lines are repeated, but only after each word has occurred many times.
    some = [" ".join(rng.choices(words, k=LINE_WORDS)).encode() for _ in range(min(lines, 10 * vocabulary))]
    with Producer(f"127.0.0.1:{peer.port}") as producer:
        for number in range(lines):
            producer.send(topic, some[number % len(some)], partition=number % 2)
    return topic


def _java_word_count(peer: Peer, topic: str) -> float:
    """Two threads and the defaults, but for a commit every second, by which its end is seen."""
    application = new_name("count")
    _make(peer, OUTPUT, partitions=2)
    with tempfile.TemporaryDirectory() as folder, Admin(f"127.0.0.1:{peer.port}") as admin:
        properties = Path(folder) / "streams.properties"
        settings = {
            "application.id": application,
            "bootstrap.servers": f"127.0.0.1:{peer.port}",
            "state.dir": folder,
            "num.stream.threads": "2",
            "commit.interval.ms": "1000",
            "statestore.cache.max.bytes": str(10 * 1024 * 1024),
        }
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        began = time.perf_counter()
        process = subprocess.Popen(
            ["java", "-Xmx1g", "-cp", f"{JARS}/*", DEMO, str(properties)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while not _is_all_read(admin, application, topic):
                if process.poll() is not None or time.perf_counter() - began > RUN_LIMIT_S:
                    raise RuntimeError("WordCountDemo did not come to an end")
                time.sleep(POLL_S)
            return time.perf_counter() - began
        finally:
            process.kill()
            process.wait()
            mine = [listed.name for listed in admin.list_topics() if listed.name.startswith(application)]
            admin.delete_topics([OUTPUT, *mine])


def _is_all_read(admin: Admin, group: str, topic: str) -> bool:
    """Both the input and the topic in between."""
    try:
        lags = admin.group_lag(group)
    except errors.PenstockError:
        return False  # not there yet
    topics = {lag.partition.topic for lag in lags if lag.committed_offset is not None}
    return topic in topics and len(topics) > 1 and all(lag.lag == 0 for lag in lags)


READ, STREAM, WRITE = "Spark batch read", "Spark stream read, availableNow", "Spark write"
CORES = "Spark batch read, two cores over one"
SMALL = "Spark micro-batch of 100 rows"
COUNT, COUNT_1M = "word count, 1,000 words", "word count, 1 M words"
INPUT, OUTPUT = "streams-plaintext-input", "streams-wordcount-output"

SPARK_LINES = [
    Group(
        "spark-read",
        reads,
        [
            Line(f"{READ}, connector", "rows/s", True),
            Line(READ, "rows/s", True),
            Line(f"{READ}, over the connector", "x", True, 2.0),
            Line(f"{STREAM}, connector", "rows/s", True),
            Line(STREAM, "rows/s", True),
            Line(f"{STREAM}, over the connector", "x", True, 1.5),
            Line(CORES, "x", True, 1.7),
        ],
        between_clients=True,
    ),
    Group(
        "spark-write",
        writes,
        [
            Line(f"{WRITE}, connector", "rows/s", True),
            Line(WRITE, "rows/s", True),
            Line(f"{WRITE}, exactly once", "rows/s", True),
            Line(f"{WRITE}, over the connector", "x", True, 1.5),
            Line(f"{WRITE}, exactly once, over the connector's at least once", "x", True, 1.0),
        ],
        between_clients=True,
    ),
    Group(
        "spark-latency",
        small_batches,
        [
            Line(f"{SMALL}, Spark's own", "ms", False),
            Line(f"{SMALL}, connector", "ms", False),
            Line(SMALL, "ms", False),
            Line(f"{SMALL}, added to Spark's own", "ms", False, 50.0),
        ],
        between_clients=True,
    ),
    Group(
        "word-count",
        word_count,
        [
            Line(f"{COUNT}, Kafka Streams", "words/s", True),
            Line(COUNT, "words/s", True),
            Line(f"{COUNT}, over Kafka Streams", "x", True, 1.0),
            Line(f"{COUNT_1M}, Kafka Streams", "words/s", True),
            Line(COUNT_1M, "words/s", True),
            Line(f"{COUNT_1M}, over Kafka Streams", "x", True),
        ],
        between_clients=True,
    ),
]
