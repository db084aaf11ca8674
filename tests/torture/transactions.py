"""Kill a broker and its clients with SIGKILL in the middle of transactions, and see that each is whole or not there.

Transactors write over several partitions of one topic, and pipelines of real clients consume from another, transform
and produce. At random moments the broker is killed, sometimes again while it recovers, or one of the clients, or both;
in between the logs of transactions, offsets and records end with what a torn write might leave there. In the end every
transaction is all there or not at all, as its producer was told, and every pipeline's output is its input, one to one.
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
from harness.waiting import wait_until
from torture import transactors
from torture.damage import damage_tail
from torture.transactors import RawTransactor

TOPIC = "transaction-torture"
INPUT = "transaction-input"
PARTITIONS = [0, 1, 2]
INPUT_PARTITION_COUNT = 4
ROUND_RECORDS = 120  # of input: what the pipelines do in about a second
PROGRESS_SECONDS = 120.0
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.segment.bytes": "1048576",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
SMALL_SEGMENTS = {"segment.bytes": str(1 << 20)}
"""So that what is known of transactions and producers has to be found in several of them."""
TORN = ("__transaction_state", "__consumer_offsets", TOPIC, "output")


@dataclass(frozen=True, slots=True)
class TransactionReport:
    rounds: int
    kills: int
    client_kills: int
    ended: int
    """Transactions of transactors whose end was answered."""
    transformed: int
    """Records that went through pipelines, all of them together."""
    faults: list[str]


class Watched:
    """A pipeline and a reader of its output."""

    def __init__(self, client: Client, bootstrap: str) -> None:
        self.target = f"output-{client}"
        create_topics(bootstrap, self.target, partitions=INPUT_PARTITION_COUNT)
        self.pipeline = Pipeline(client, bootstrap, source=INPUT, target=self.target)
        self.reader = Reader(bootstrap, self.target, INPUT_PARTITION_COUNT)

    @property
    def failures(self) -> list[str]:
        return self.pipeline.tally.failed

    def faults(self, bootstrap: str, written: Input) -> list[str]:
        """When all that was written is transformed, and the pipeline stopped."""
        found = read_all(bootstrap, self.target, INPUT_PARTITION_COUNT, isolation="read_committed")
        faults = [*self.failures, *outcome.faults(written.written, found)]
        if self.reader.found != found:
            faults.append("what was read while it was written is not what is there now")
        group = Group(bootstrap, self.pipeline.group, INPUT, partition_count=INPUT_PARTITION_COUNT)
        if committed_offsets(group) != written.ends:
            faults.append(
                f"committed are {committed_offsets(group)}, but all is transformed to {written.ends}"
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
    """Runs it all on a broker that is not started yet, and leaves it stopped."""
    rng = random.Random(seed)
    broker.start()
    create_topics(broker.bootstrap, TOPIC, partitions=len(PARTITIONS), config=SMALL_SEGMENTS)
    create_topics(broker.bootstrap, INPUT, partitions=INPUT_PARTITION_COUNT)
    raw = [
        RawTransactor(broker.port, name, TOPIC, PARTITIONS, is_version_2=is_new, seed=rng.getrandbits(32))
        for name, is_new in {"old-a": False, "old-b": False, "new-a": True, "new-b": True}.items()
    ]
    written = Input(broker.bootstrap, INPUT, INPUT_PARTITION_COUNT)
    pipelines = [Watched(client, broker.bootstrap) for client in clients]
    run = _Run(broker, raw, pipelines, written, rng)
    try:
        for actor in (*raw, *(watched.pipeline for watched in pipelines)):
            actor.start()
        for number in range(1, rounds + 1):
            what = run.round(is_damaging=is_damaging)
            ended = sum(transactor.story.ended for transactor in raw)
            transformed = sum(watched.reader.count for watched in pipelines)
            say(
                f"round {number:3}/{rounds}: {what}; {ended:,} transactions ended, {transformed:,} records transformed"
            )
            if run.failures():
                break
        faults = run.finish()
    finally:
        for watched in pipelines:
            watched.pipeline.kill()
    broker.stop()
    return TransactionReport(
        number,
        run.kills,
        run.client_kills,
        sum(transactor.story.ended for transactor in raw),
        sum(watched.reader.count for watched in pipelines),
        list(dict.fromkeys(faults)),
    )


@dataclass(slots=True)
class _Run:
    broker: Broker
    raw: list[RawTransactor]
    pipelines: list[Watched]
    written: Input
    rng: random.Random
    kills: int = 0
    client_kills: int = 0

    def round(self, *, is_damaging: bool) -> str:
        """Kills somebody in the middle of work, and says what it did."""
        if self.pipelines:
            self.written.write(ROUND_RECORDS)
        self._wait_for_progress()
        load_seconds = self.rng.uniform(0.02, 0.8)
        time.sleep(load_seconds)
        done = []
        kills_broker = not self.pipelines or self.rng.random() < 0.6
        if self.pipelines and (not kills_broker or self.rng.random() < 0.4):
            watched = self.rng.choice(self.pipelines)
            number = self.rng.randrange(watched.pipeline.client.transformer_count)
            watched.pipeline.replace(number)
            self.client_kills += 1
            done.append(f"killed {watched.pipeline.client} {number}")
        if kills_broker:
            done.append(self._kill_broker(is_damaging=is_damaging))
        return f"after {load_seconds:.2f} s {', '.join(done)}"

    def failures(self) -> list[str]:
        return [
            *(complaint for transactor in self.raw for complaint in transactor.story.complaints),
            *(failure for watched in self.pipelines for failure in watched.failures),
        ]

    def finish(self) -> list[str]:
        """Lets everybody come to an end, and looks at what is there, before and after a clean restart."""
        faults = [] if self.failures() else [fault for each in self.pipelines for fault in self._stuck(each)]
        for transactor in self.raw:
            transactor.stop()
        for watched in self.pipelines:
            watched.pipeline.stop()
        faults += self._faults()
        self.broker.restart()
        return faults + self._faults()

    def _stuck(self, watched: Watched) -> list[str]:
        """Whether a pipeline does not come to the end of its input."""
        try:
            watched.reader.read_until(len(self.written.written), complaints=watched.failures)
        except AssertionError as error:
            return [f"{watched.pipeline.client}: {error}"]
        return []

    def _faults(self) -> list[str]:
        bootstrap = self.broker.bootstrap
        self._end_what_is_open()
        found = read_all(bootstrap, TOPIC, len(PARTITIONS), isolation="read_committed")
        result = [fault for transactor in self.raw for fault in transactors.faults(transactor.story, found)]
        for watched in self.pipelines:
            result += watched.faults(bootstrap, self.written)
        return result

    def _end_what_is_open(self) -> None:
        """The last transaction of a transactor may be without an end; one of the same name rolls it back."""
        for transactor in self.raw:
            transactor.roll_back()
        topics = {TOPIC: len(PARTITIONS)} | {each.target: INPUT_PARTITION_COUNT for each in self.pipelines}
        for topic, count in topics.items():
            wait_until(
                lambda topic=topic, count=count: open_partitions(self.broker.bootstrap, topic, count) == [],
                f"no transaction is open in {topic}",
                seconds=PROGRESS_SECONDS,
            )

    def _wait_for_progress(self) -> None:
        """Until everybody ended a transaction since the last kill: only then is the next one in the middle of work."""
        ended = {transactor.story.name: transactor.story.ended for transactor in self.raw}
        read = {watched.target: watched.reader.count for watched in self.pipelines}

        def waiting() -> list[str]:
            for watched in self.pipelines:
                watched.reader.read(0)
            stuck = [each.story.name for each in self.raw if each.story.ended <= ended[each.story.name]]
            return stuck + [each.target for each in self.pipelines if each.reader.count <= read[each.target]]

        deadline = time.monotonic() + PROGRESS_SECONDS
        while (stuck := waiting()) and not self.failures():
            assert time.monotonic() < deadline, (
                f"nothing was committed for {PROGRESS_SECONDS:.0f} s by {stuck}"
            )
            time.sleep(0.005)

    def _kill_broker(self, *, is_damaging: bool) -> str:
        self.broker.kill()
        self.kills += 1
        damage = self._damage() if is_damaging else "none"
        while self.rng.random() < 0.15:  # and once more, while it recovers or loads
            self.broker.launch()
            time.sleep(self.rng.uniform(0.0, 0.4))
            self.broker.kill()
            self.kills += 1
        self.broker.start()
        return f"killed the broker, damage: {damage}"

    def _damage(self) -> str:
        """What a torn write leaves behind the last whole one. Nothing that was written is touched."""
        folders = sorted(
            folder
            for directory in self.broker.log_directories
            for folder in directory.iterdir()
            if folder.is_dir() and folder.name.startswith(TORN)
        )
        chosen = self.rng.sample(folders, self.rng.randint(0, min(3, len(folders))))
        return "; ".join(damage_tail(folder, self.rng, promised_end=None) for folder in chosen) or "none"
