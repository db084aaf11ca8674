"""An application from start to stop: its output, its state, and its errors."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from penstock.streams import (
    App,
    AppFailed,
    Context,
    KeyValueState,
    Processor,
    Record,
    Stream,
    TopologyError,
    key_value_store,
    tumbling,
    until_window_closes,
)
from penstock.testing import Broker

PATIENCE_SECONDS = 120.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def word_count(broker: Broker, folder: Path) -> App:
    app = App("word-count", brokers=broker.bootstrap_servers, state_dir=str(folder), replication_factor=1)
    words = app.stream("lines", value=str).flat_map(str.split)
    words.group_by_value().count(name="counts").to("word-counts")
    return app


def test_counts_continue_after_a_restart_and_can_be_queried_from_another_process(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    broker.admin().create_topic("lines", 2)
    send(broker, "lines", ["to be or", "not to be"])

    word_count(broker, tmp_path).run(spark, until="end")
    send(broker, "lines", ["be it so"])
    word_count(broker, tmp_path).run(spark, until="end")

    right = {"to": 2, "be": 3, "or": 1, "not": 1, "it": 1, "so": 1}
    assert last(broker, "word-counts") == right
    assert last(broker, "word-count-counts-changelog") == right
    elsewhere = word_count(broker, tmp_path).table("counts")
    assert elsewhere.get("be") == 3
    assert elsewhere.get("nobody") is None
    assert dict(elsewhere.items()) == right
    assert list(elsewhere.range("it", "or")) == [("it", 1), ("not", 1), ("or", 1)]
    rows = elsewhere.to_dataframe(spark).collect()
    assert {row["key"]: row["value"] for row in rows} == right
    committed = broker.admin().list_group_offsets("word-count")
    assert sum(offset.offset for offset in committed.values()) == 3


def test_an_application_runs_until_it_is_stopped(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    with broker.admin() as admin:
        for topic in ("shouts", "whispers"):
            admin.create_topic(topic, 2)
    app = App("whisper", broker.bootstrap_servers, state_dir=str(tmp_path), commit_interval_ms=0)
    shouts = app.stream("shouts", key=str, value=str, reset=timedelta(hours=1))
    shouts.map_values(str.lower).to("whispers")
    with broker.producer() as producer:
        producer.send("shouts", "HELLO BEFORE", timestamp_ms=now_ms() - 7_200_000)

    running = app.start(spark)
    for number in range(2):
        send(broker, "shouts", [f"HELLO {number}"])
        await_count(broker, "whispers", number + 1, running.check)
    app.stop()

    assert not running.is_active
    assert sorted(values(broker, "whispers")) == [b"hello 0", b"hello 1"]


def test_an_application_continues_after_its_planning_process_was_killed(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    with broker.admin() as admin:
        for topic in ("votes", "ballots"):
            admin.create_topic(topic, 2)
    app = App("ballot", broker.bootstrap_servers, state_dir=str(tmp_path), commit_interval_ms=0)
    app.stream("votes", value=str).group_by_value().count(name="ballot").to("ballots")

    running = app.start(spark)
    send(broker, "votes", ["ann"])
    await_count(broker, "ballots", 1, running.check)
    kill_planners()
    send(broker, "votes", ["ann"])
    await_count(broker, "ballots", 2, running.check)
    app.stop()

    assert last(broker, "ballots") == {"ann": 2}


class Reminding(Processor[str, str, str, str]):
    """Forwards everything it has seen at every tenth of a second of wall-clock time."""

    def init(self, context: Context[str, str]) -> None:
        self.seen: KeyValueState[str, str] = context.store("seen")
        context.schedule(0.1, self.remind, clock="wall")

    def process(self, record: Record[str, str]) -> None:
        self.seen.put(record.key, record.value)

    def remind(self, now_ms: int) -> None:
        for key, value in self.seen.items():
            self.context.forward(Record(key, value, now_ms))


def test_a_run_until_the_end_finishes_although_it_has_wall_clock_timers(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    with broker.admin() as admin:
        for topic in ("loans", "reminded"):
            admin.create_topic(topic, 1)
    app = App("reminding-once", broker.bootstrap_servers, state_dir=str(tmp_path))
    store = key_value_store("seen", key=str, value=str)
    loans = app.stream("loans", key=str, value=str)
    loans.process(Reminding, stores=[store], key=str, value=str).to("reminded")
    with broker.producer() as producer:
        producer.send("loans", "ten", key="ada")

    app.run(spark, until="end")

    assert app.state("seen").get("ada") == "ten"


def test_wall_clock_timers_fire_without_records(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    with broker.admin() as admin:
        for topic in ("debts", "reminders", "closed"):
            admin.create_topic(topic, 1)
    app = App("reminding", broker.bootstrap_servers, state_dir=str(tmp_path), commit_interval_ms=0)
    store = key_value_store("seen", key=str, value=str)
    debts = app.stream("debts", key=str, value=str)
    debts.process(Reminding, stores=[store], key=str, value=str).to("reminders")
    windows = debts.group_by_key().windowed_by(tumbling(1)).count().suppress(until_window_closes())
    windows.to_stream(lambda window, count: window.key, key=str).to("closed")

    running = app.start(spark)
    with broker.producer() as producer:
        producer.send("debts", "ten", key="ada", timestamp_ms=now_ms())
        producer.send("debts", "ten", key="blaise", timestamp_ms=now_ms() + 9000)
    await_count(broker, "reminders", 4, running.check)
    await_count(broker, "closed", 1, running.check)  # event time advances in addition to the wall clock
    app.stop()

    assert set(values(broker, "reminders")) == {b"ten"}
    with broker.consumer("reminders", isolation_level="read_committed") as consumer:
        fired = [(message.key, message.timestamp_ms) for message in consumer.read(until="end").to_messages()]
    assert len(fired) == len(set(fired))  # each once
    assert last(broker, "closed") == {"ada": 1}


def test_a_changed_program_that_does_not_match_its_checkpoint_is_rejected(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    broker.admin().create_topic("songs", 1)

    def started(build: Callable[[Stream[bytes, str]], object]) -> None:
        app = App("charts", broker.bootstrap_servers, state_dir=str(tmp_path))
        build(app.stream("songs", value=str))
        app.start(spark)
        app.stop()

    started(lambda songs: songs.group_by_value().count(name="plays").to("charts"))
    with pytest.raises(
        TopologyError,
        match=r"(?s)charts does not match its checkpoint .* the state plays .* was removed or renamed",
    ):
        started(lambda songs: songs.group_by_value().count(name="heard").to("charts"))
    started(lambda songs: songs.filter(bool).group_by_value().count(name="plays").to("charts"))


def test_a_program_that_its_checkpoint_rejects_leaves_no_changelog_topic_behind(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    broker.admin().create_topic("albums", 1)

    def start(table: str) -> None:
        app = App("album-charts", broker.bootstrap_servers, state_dir=str(tmp_path))
        app.stream("albums", value=str).group_by_value().count(name=table)
        app.start(spark)
        app.stop()

    start("plays")
    with pytest.raises(TopologyError, match="does not match its checkpoint"):
        start("heard")

    topics = {listing.name for listing in broker.admin().list_topics()}
    assert "album-charts-plays-changelog" in topics
    assert "album-charts-heard-changelog" not in topics


def test_a_queried_versioned_table_has_the_latest_values_by_time(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    broker.admin().create_topic("prices", 1)
    with broker.producer() as producer:
        begin_ms = now_ms()
        for value, after_ms in (("old", 2000), ("new", 3000), ("late", 1000)):
            producer.send("prices", value, key="tea", timestamp_ms=begin_ms + after_ms)
    app = App("asking", broker.bootstrap_servers, state_dir=str(tmp_path))
    prices = app.table("prices", key=str, value=str, history=60)

    assert prices.get("tea") == "new"
    assert [row["value"] for row in prices.to_dataframe(spark).collect()] == ["new"]


def test_a_function_that_raises_is_named_with_the_record_it_failed_for(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    broker.admin().create_topic("sums", 1)
    send(broker, "sums", ["1", "2", "three", "4"])
    app = App("adding", broker.bootstrap_servers, state_dir=str(tmp_path))
    app.stream("sums", value=str).map_values(int, name="to-int").to("numbers")

    with pytest.raises(AppFailed, match=r"to-int failed at sums-0 offset 2: ValueError: .*'three'"):
        app.run(spark, until="end")

    assert values(broker, "numbers") == []


def test_failed_records_are_skipped_if_configured(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    broker.admin().create_topic("mixed", 1)
    send(broker, "mixed", ["1", "x", "3"])
    settings = {"processing.exception.handler": "continue", "errors.dead.letter.queue.topic.name": "dead"}
    app = App("adding-what-can-be", broker.bootstrap_servers, settings=settings, state_dir=str(tmp_path))
    numbers = app.stream("mixed", value=str).map_values(int, name="to-int")
    numbers.group_by(lambda value: "all", key=str).reduce(lambda a, b: a + b, name="sum").to("sum")

    app.run(spark, until="end")

    assert last(broker, "sum") == {"all": 4}
    with broker.consumer("dead", isolation_level="read_committed") as consumer:
        (letter,) = consumer.read(until="end").to_messages()
    assert letter.value == b"x"
    headers = dict(letter.headers)
    assert headers["__streams.errors.topic"] == b"mixed"
    assert headers["__streams.errors.offset"] == b"1"


def send(broker: Broker, topic: str, lines: list[str]) -> None:
    with broker.producer() as producer:
        for line in lines:
            producer.send(topic, line)


def kill_planners() -> None:
    """The Python processes that plan batches for the sources of this program's Spark session."""
    killed = 0
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # some end during the search
            if any("python_streaming_source_runner" in word for word in child.cmdline()):
                child.kill()
                killed += 1
    assert killed


def values(broker: Broker, topic: str) -> list[bytes | None]:
    with broker.admin() as admin:
        if topic not in [listing.name for listing in admin.list_topics()]:
            return []
    with broker.consumer(topic, isolation_level="read_committed") as consumer:
        return [message.value for message in consumer.read(until="end").to_messages()]


def last(broker: Broker, topic: str) -> dict[str, int]:
    with broker.consumer(topic, isolation_level="read_committed") as consumer:
        messages = consumer.read(until="end").to_messages()
    return {message.key.decode(): int.from_bytes(message.value, "big") for message in messages}


def now_ms() -> int:
    """Old records would be deleted: brokers keep them for a week."""
    return time.time_ns() // 1_000_000


def await_count(broker: Broker, topic: str, count: int, check: Callable[[], object]) -> None:
    """Wait until `count` records are committed. Waits in the consumer: a busy loop takes CPU from Spark."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    found: list[bytes | None] = []
    with broker.consumer(topic, isolation_level="read_committed") as consumer:
        while len(found) < count:
            found += [message.value for message in consumer.poll(timeout=0.5)]
            check()
            assert time.monotonic() < deadline, f"{topic} has {found}"
