"""Kill a broker and instances of Kafka Streams with SIGKILL: with exactly_once_v2 each word is counted once.

The application keeps its counts in a store with a changelog, and passes words on through its own topic. A count that
does not match the words before it shows that something was not committed atomically.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from compat.streams.word_count import (
    EXACTLY_ONCE,
    INPUT,
    OUTPUT,
    PARTITION_COUNT,
    Lines,
    WordCount,
    each_once,
)
from harness.admin import create_topics
from harness.brokers import Broker
from harness.waiting import wait_until
from torture.transactions import SETTINGS

INSTANCE_COUNT = 2
ROUND_LINES = 40
PROGRESS_SECONDS = 120.0
STREAMS_SETTINGS = {**SETTINGS, "group.streams.min.session.timeout.ms": "1000"}


@dataclass(frozen=True, slots=True)
class StreamsReport:
    rounds: int
    kills: int
    instance_kills: int
    counted: int
    faults: list[str]


def torture_streams(
    broker: Broker,
    folder: Path,
    *,
    rounds: int,
    seed: int,
    protocol: str = "classic",
    say: Callable[[str], None] = lambda line: None,
) -> StreamsReport:
    """Run everything on a broker that is not started yet, and leave it stopped."""
    rng = random.Random(seed)
    broker.start()
    create_topics(broker.bootstrap, INPUT, OUTPUT, partitions=PARTITION_COUNT)
    application = WordCount(broker, folder, protocol=protocol, settings=EXACTLY_ONCE)
    lines = Lines(broker.bootstrap)
    kills = instance_kills = 0
    try:
        instances = [application.start() for _ in range(INSTANCE_COUNT)]
        for number in range(1, rounds + 1):
            lines.write(ROUND_LINES)
            wait_until(lambda: application.read(0.1) > 0, "some word is counted", seconds=PROGRESS_SECONDS)
            load_seconds = rng.uniform(0.02, 0.8)
            time.sleep(load_seconds)
            done = []
            kills_broker = rng.random() < 0.6
            if not kills_broker or rng.random() < 0.4:
                chosen = rng.randrange(INSTANCE_COUNT)
                instances[chosen].kill()
                instances[chosen].wait()
                instances[chosen] = application.start(number=chosen)
                instance_kills += 1
                done.append(f"killed instance {chosen}")
            if kills_broker:
                broker.kill()
                broker.start()
                kills += 1
                done.append("killed the broker")
            counted = sum(map(len, application.counts_by_word.values()))
            say(
                f"round {number:3}/{rounds}: after {load_seconds:.2f} s {', '.join(done)}; {counted:,} words counted"
            )
        wait_until(
            lambda: application.read(0.1) == 0 and _is_counted(application, lines),
            "all words are counted",
            seconds=PROGRESS_SECONDS,
        )
    except AssertionError as error:
        say(str(error))
    finally:
        application.close()
    broker.stop()
    counted = sum(map(len, application.counts_by_word.values()))
    return StreamsReport(number, kills, instance_kills, counted, _faults(application, lines))


def _is_counted(application: WordCount, lines: Lines) -> bool:
    return application.counts == {word: counts[-1] for word, counts in each_once(lines.written).items()}


def _faults(application: WordCount, lines: Lines) -> list[str]:
    return [
        f"{word!r} was written {len(expected)} times and counted {application.counts_by_word.get(word, [])}"
        for word, expected in each_once(lines.written).items()
        if application.counts_by_word.get(word) != expected
    ]
