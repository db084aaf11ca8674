"""The examples, unchanged, on data of their own generators, compared with plain Python."""

from __future__ import annotations

import importlib.util
import itertools
import json
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.dataset
import pytest
from pyspark.sql import SparkSession

from harness.brokers import ROOT
from penstock import Message
from penstock.spark.pipelines.loading import load
from penstock.spark.pipelines.running import CHECKPOINT_SETTING, Run
from penstock.spark.settings import RUNTIME
from penstock.testing.broker import Broker

EXAMPLES = ROOT / "examples"
TWO_PHASE = {"transaction.two.phase.commit.enable": "true"}

pytestmark = [pytest.mark.penstock(settings=TWO_PHASE), pytest.mark.penstock_only("its own examples")]


def generators() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_examples", EXAMPLES / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Example:
    """One example, on the broker and in the folders of a test."""

    def __init__(self, name: str, spark: SparkSession, broker: Broker, folder: Path) -> None:
        self.name, self.broker = name, broker
        self._spark, self._folder = spark, folder

    def write(self, count: int) -> list[Any]:
        """So many events of its generator, in two partitions of each topic."""
        now_ms = time.time_ns() // 1_000_000  # retention would delete old records
        # Two per second: few users and cards, each with many events.
        generator = generators().GENERATORS[self.name](random.Random(7), now_ms, 2.0)
        events = list(itertools.islice(generator, count))
        with self.broker.admin() as admin:
            for topic in sorted({event.topic for event in events}):
                admin.create_topic(topic, partitions=2)
        with self.broker.producer() as producer:
            for event in events:
                producer.send(event.topic, event.value, key=event.key, timestamp_ms=event.ms)
        return events

    def run(self) -> None:
        """Until all is done that was there."""
        program = load(EXAMPLES / f"{self.name}.py")
        run = Run(program, self._spark, name=program.name, checkpoint=str(self._folder), is_once=True)
        run.start()
        while run.poll():  # an App continues with its next stage
            for query in [watched.query for watched in run.watched]:
                query.awaitTermination()
        run.stop()
        # Listeners finish their requests before the broker stops.
        self._spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()

    def output(self, topic: str) -> list[Message]:
        with self.broker.consumer(topic, isolation_level="read_committed") as consumer:
            return list(consumer.read(until="end").to_messages())


@pytest.fixture
def example(
    spark: SparkSession, penstock: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Example]]:
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP_SERVERS", penstock.bootstrap_servers)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("ACCESS_LOGS", str(tmp_path / "access-logs"))
    for setting, value in RUNTIME.items():  # as with `penstock pipeline run`
        spark.conf.set(setting, value)
    yield lambda name: Example(name, spark, penstock, tmp_path / "checkpoints")
    for setting in (CHECKPOINT_SETTING, *RUNTIME):
        spark.conf.unset(setting)


def text(data: bytes | None) -> str:
    assert data is not None
    return data.decode()


def test_word_count(example: Callable[[str], Example]) -> None:
    counting = example("word_count")
    events = counting.write(60)

    counting.run()

    latest = {
        text(message.key): int.from_bytes(message.value or b"") for message in counting.output("word-counts")
    }
    assert latest == Counter(word for event in events for word in event.value.lower().split())


def test_sessions(example: Callable[[str], Example]) -> None:
    visiting = example("sessions")
    events = visiting.write(400)

    visiting.run()

    at_end = max(event.ms for event in events) - 10_000  # visits that may continue are not written
    model = Counter(
        (user, clicks)
        for user, visits in model_of_visits(events).items()
        for clicks, last_ms in visits
        if last_ms + 30_000 <= at_end
    )
    written = Counter(
        (text(message.key), json.loads(text(message.value))["clicks"])
        for message in visiting.output("visits")
    )
    assert written == model
    assert written


def model_of_visits(events: list[Any]) -> dict[str, list[tuple[int, int]]]:
    """By user: how many clicks a visit had, and the time of its last one."""
    visits: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event.ms):
        own = visits[event.key]
        if own and event.ms < own[-1][1] + 30_000:
            own[-1] = own[-1][0] + 1, event.ms
        else:
            own.append((1, event.ms))
    return visits


def test_fraud(example: Callable[[str], Example]) -> None:
    judging = example("fraud")
    events = judging.write(600)

    judging.run()

    written = Counter(
        (text(message.key), reported["rule"], reported["ms"])
        for message in judging.output("alerts")
        for reported in [json.loads(text(message.value))]
    )
    assert written == model_of_alerts(events)
    assert {rule for _, rule, _ in written} == {"too many payments", "unusual amount", "two countries"}


def model_of_alerts(events: list[Any]) -> Counter[tuple[str, str, int]]:
    alerts: Counter[tuple[str, str, int]] = Counter()
    before: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        payment = json.loads(event.value)
        own, ms = before[event.key], payment["ms"]
        if sum(past["ms"] > ms - 60_000 for past in own) + 1 > 3:
            alerts[event.key, "too many payments", ms] += 1
        if own and payment["cents"] > 10 * sum(past["cents"] for past in own) / len(own):
            alerts[event.key, "unusual amount", ms] += 1
        if own and own[-1]["country"] != payment["country"] and ms - own[-1]["ms"] < 600_000:
            alerts[event.key, "two countries", ms] += 1
        own.append(payment)
    return alerts


def test_change_stream(example: Callable[[str], Example]) -> None:
    joining = example("change_stream")
    events = joining.write(300)

    joining.run()

    known: dict[str, dict[str, str]] = {}
    model: Counter[tuple[str, str, str]] = Counter()
    for event in events:
        if event.topic == "customers":
            known.pop(event.key, None)
            if event.value is not None:
                known[event.key] = json.loads(event.value)
        else:
            city = known.get(event.key, {"city": "unknown"})["city"]
            model[event.key, json.loads(event.value)["item"], city] += 1
    written = Counter(
        (text(message.key), reported["item"], reported["city"])
        for message in joining.output("deliveries")
        for reported in [json.loads(text(message.value))]
    )
    assert written == model


def test_access_logs(example: Callable[[str], Example], tmp_path: Path) -> None:
    reading = example("access_logs")
    events = reading.write(300)

    reading.run()

    table = pyarrow.dataset.dataset(tmp_path / "access-logs", partitioning="hive").to_table()
    assert Counter(table["line"].to_pylist()) == Counter(event.value for event in events)
    statuses = Counter(table["status"].to_pylist())
    model = Counter(int(event.value.split()[-2]) if "HTTP" in event.value else None for event in events)
    assert statuses == model
