"""Kill a broker and its clients with SIGKILL during transactions, and check that each is complete or absent.

Transactional producers write to several partitions of one topic. Pipelines of real clients consume from another
topic, transform and produce. At random moments the broker is killed, sometimes again while it recovers, or a client,
or both. In between, torn writes are appended to the logs of transactions, offsets and records. In the end every
transaction is complete or absent, as its producer was answered, and every pipeline's output matches its input one to
one.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compat.groups.members import Group
from compat.groups.state import committed_offsets
from compat.transactions import outcome
from compat.transactions.input import Input
from compat.transactions.outcome import Reader, open_partitions, read_all
from compat.transactions.transformers import Client, Pipeline
from harness.admin import create_topics
from harness.brokers import Broker
from harness.group_timeouts import SHORT_GROUP_TIMEOUTS
from harness.waiting import wait_until
from torture import transactional_producers
from torture.damage import damage_tail
from torture.transactional_producers import RawTransactionalProducer

TOPIC = "transaction-torture"
INPUT = "transaction-input"
PARTITIONS = [0, 1, 2]
INPUT_PARTITION_COUNT = 4
ROUND_RECORDS = 120  # of input: about a second of work for the pipelines
PROGRESS_SECONDS = 120.0
SETTINGS = {
    **SHORT_GROUP_TIMEOUTS,
    "group.consumer.session.timeout.ms": "3000",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.segment.bytes": "1048576",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
SMALL_SEGMENTS = {"segment.bytes": str(1 << 20)}
"""So that the state of transactions and producers is spread over several segments."""
TORN = ("__transaction_state", "__consumer_offsets", TOPIC, "output")


@dataclass(frozen=True, slots=True)
class TransactionReport:
    rounds: int
    kills: int
    client_kills: int
    ended: int
    """Transactions whose end was answered."""
    transformed: int
    """Records transformed by all pipelines together."""
    faults: list[str]


class MonitoredPipeline:
    """A pipeline and a reader of its output."""

    def __init__(self, client: Client, bootstrap: str, *, replicas: int = 1) -> None:
        self.target = f"output-{client}"
        create_topics(bootstrap, self.target, partitions=INPUT_PARTITION_COUNT, replicas=replicas)
        self.pipeline = Pipeline(client, bootstrap, source=INPUT, target=self.target)
        self.reader = Reader(bootstrap, self.target, INPUT_PARTITION_COUNT)

    @property
    def failures(self) -> list[str]:
        return self.pipeline.tally.failed

    def reads(self, count: int) -> bool:
        """Whether the output reaches this many records in time."""
        try:
            self.reader.read_until(count, errors=self.failures)
        except AssertionError:
            return False
        return True

    def faults(self, bootstrap: str, written: Input) -> list[str]:
        """After all input is transformed and the pipeline stopped."""
        found = read_all(bootstrap, self.target, INPUT_PARTITION_COUNT, isolation="read_committed")
        faults = [*self.failures, *outcome.faults(written.written, found)]
        if self.reader.found != found:
            faults.append("the output now differs from what was read while it was written")
        group = Group(bootstrap, self.pipeline.group, INPUT, partition_count=INPUT_PARTITION_COUNT)
        if committed_offsets(group) != written.ends:
            faults.append(
                f"committed are {committed_offsets(group)}, but the input is transformed up to {written.ends}"
            )
        return [f"{self.pipeline.client}: {fault}" for fault in faults]


def torture_transactions(
    broker: Broker,
    *,
    rounds: int,
    seed: int,
    clients: Sequence[Client],
    is_damaging: bool = True,
    say: Callable[[str], None] = lambda line: None,
) -> TransactionReport:
    """Run everything on a broker that is not started yet, and leave it stopped."""
    rng = random.Random(seed)
    broker.start()
    create_topics(broker.bootstrap, TOPIC, partitions=len(PARTITIONS), config=SMALL_SEGMENTS)
    create_topics(broker.bootstrap, INPUT, partitions=INPUT_PARTITION_COUNT)
    raw = [
        RawTransactionalProducer(
            broker.port, name, TOPIC, PARTITIONS, is_version_2=is_new, seed=rng.getrandbits(32)
        )
        for name, is_new in {"old-a": False, "old-b": False, "new-a": True, "new-b": True}.items()
    ]
    written = Input(broker.bootstrap, INPUT, INPUT_PARTITION_COUNT)
    pipelines = [MonitoredPipeline(client, broker.bootstrap) for client in clients]
    run = _Run(broker, raw, pipelines, written, rng)
    try:
        for client in (*raw, *(monitored.pipeline for monitored in pipelines)):
            client.start()
        for number in range(1, rounds + 1):
            what = run.round(is_damaging=is_damaging)
            ended = sum(producer.history.ended for producer in raw)
            transformed = sum(monitored.reader.count for monitored in pipelines)
            say(
                f"round {number:3}/{rounds}: {what}; {ended:,} transactions ended, {transformed:,} records transformed"
            )
            if run.failures():
                break
        faults = run.finish()
    finally:
        for monitored in pipelines:
            monitored.pipeline.kill()
    broker.stop()
    return TransactionReport(
        number,
        run.kills,
        run.client_kills,
        sum(producer.history.ended for producer in raw),
        sum(monitored.reader.count for monitored in pipelines),
        list(dict.fromkeys(faults)),
    )


@dataclass(slots=True)
class _Run:
    broker: Broker
    raw: list[RawTransactionalProducer]
    pipelines: list[MonitoredPipeline]
    written: Input
    rng: random.Random
    kills: int = 0
    client_kills: int = 0

    def round(self, *, is_damaging: bool) -> str:
        """Kill the broker or a client under load; what was done."""
        if self.pipelines:
            self.written.write(ROUND_RECORDS)
        self._wait_for_progress()
        load_seconds = self.rng.uniform(0.02, 0.8)
        time.sleep(load_seconds)
        done = []
        kills_broker = not self.pipelines or self.rng.random() < 0.6
        if self.pipelines and (not kills_broker or self.rng.random() < 0.4):
            monitored = self.rng.choice(self.pipelines)
            number = self.rng.randrange(monitored.pipeline.client.transformer_count)
            monitored.pipeline.replace(number)
            self.client_kills += 1
            done.append(f"killed {monitored.pipeline.client} {number}")
        if kills_broker:
            done.append(self._kill_broker(is_damaging=is_damaging))
        return f"after {load_seconds:.2f} s {', '.join(done)}"

    def failures(self) -> list[str]:
        return [
            *(error for producer in self.raw for error in producer.history.errors),
            *(failure for monitored in self.pipelines for failure in monitored.failures),
        ]

    def finish(self) -> list[str]:
        """Let every client finish, and check the result before and after a clean restart."""
        faults = [] if self.failures() else [fault for each in self.pipelines for fault in self._stuck(each)]
        for producer in self.raw:
            producer.stop()
        for monitored in self.pipelines:
            monitored.pipeline.stop()
        faults += self._faults()
        self.broker.restart()
        return faults + self._faults()

    def _stuck(self, monitored: MonitoredPipeline) -> list[str]:
        """Whether a pipeline does not reach the end of its input."""
        try:
            monitored.reader.read_until(len(self.written.written), errors=monitored.failures)
        except AssertionError as error:
            return [f"{monitored.pipeline.client}: {error}"]
        return []

    def _faults(self) -> list[str]:
        bootstrap = self.broker.bootstrap
        self._end_what_is_open()
        found = read_all(bootstrap, TOPIC, len(PARTITIONS), isolation="read_committed")
        result = [
            fault
            for producer in self.raw
            for fault in transactional_producers.faults(producer.history, found)
        ]
        for monitored in self.pipelines:
            result += monitored.faults(bootstrap, self.written)
        return result

    def _end_what_is_open(self) -> None:
        """A producer's last transaction may be open; the next producer with the same id aborts it."""
        for producer in self.raw:
            producer.roll_back()
        topics = {TOPIC: len(PARTITIONS)} | {each.target: INPUT_PARTITION_COUNT for each in self.pipelines}
        for topic, count in topics.items():
            wait_until(
                lambda topic=topic, count=count: open_partitions(self.broker.bootstrap, topic, count) == [],
                f"no transaction is open in {topic}",
                seconds=PROGRESS_SECONDS,
            )

    def _wait_for_progress(self) -> None:
        """Wait until every client has ended a transaction since the last kill, so that the next one comes under
        load."""
        ended = {producer.history.name: producer.history.ended for producer in self.raw}
        read = {monitored.target: monitored.reader.count for monitored in self.pipelines}

        def waiting() -> list[str]:
            for monitored in self.pipelines:
                monitored.reader.read(0)
            stuck = [each.history.name for each in self.raw if each.history.ended <= ended[each.history.name]]
            return stuck + [each.target for each in self.pipelines if each.reader.count <= read[each.target]]

        deadline = time.monotonic() + PROGRESS_SECONDS
        while (stuck := waiting()) and not self.failures():
            assert time.monotonic() < deadline, f"no commit for {PROGRESS_SECONDS:.0f} s by {stuck}"
            time.sleep(0.005)

    def _kill_broker(self, *, is_damaging: bool) -> str:
        self.broker.kill()
        self.kills += 1
        damage = self._damage() if is_damaging else "none"
        while self.rng.random() < 0.15:  # again, while it recovers or loads
            self.broker.launch()
            time.sleep(self.rng.uniform(0.0, 0.4))
            self.broker.kill()
            self.kills += 1
        self.broker.start()
        return f"killed the broker, damage: {damage}"

    def _damage(self) -> str:
        """Append what a torn write would leave. Written data is not touched."""
        folders = sorted(
            folder
            for directory in self.broker.log_directories
            for folder in directory.iterdir()
            if folder.is_dir() and folder.name.startswith(TORN)
        )
        chosen = self.rng.sample(folders, self.rng.randint(0, min(3, len(folders))))
        return "; ".join(damage_tail(folder, self.rng, promised_end=None) for folder in chosen) or "none"
