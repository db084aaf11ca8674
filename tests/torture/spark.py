"""Kill Spark queries with SIGKILL, their Python workers, driver and broker: every input has its output exactly once.

A feeder sends without end, a read_committed reader follows the output. Killed processes are restarted: the broker at
once, the driver as by a supervisor. After every kill the output so far must be right. In the end it must be complete
(`spark_kinds` defines it), another reader must see the same, and no transaction may be open.

The seed decides what is killed when, for each round on its own, however long earlier rounds took.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.brokers import Broker
from penstock import Admin, Producer
from penstock.spark.sink import decisions
from penstock.spark.sink.decision import Claim, key_of, to_json
from torture.spark_kinds import KINDS, PARTITION_COUNT, Found, Kind, Row
from torture.spark_processes import Driver, Feeder, Reader

SETTINGS = {
    "transaction.two.phase.commit.enable": "true",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "4",
}
KEPT = {"retention.ms": "-1"}  # also old records
PROGRESS_SECONDS = 360.0  # for a driver that starts on a busy machine
POLL_SECONDS = 0.2
AGAIN = 0.25  # fraction of rounds that kill once more, before the query has recovered
RESTARTS_MAX = 10  # by itself, without a kill
SHOWN_COUNT = 5

WORKER, DRIVER, BROKER = "a worker", "the driver", "the broker"
KILLED = (BROKER, WORKER, DRIVER)

Say = Callable[[str], None]


@dataclass(slots=True)
class SparkReport:
    rounds: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    restarts: int = 0
    """Drivers that ended by themselves."""
    records: int = 0
    """Input records."""
    written: int = 0
    """Output records."""
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kills = ", ".join(f"{self.kills[what]} of {what}" for what in KILLED)
        verdict = "all right" if not self.faults else "WRONG"
        return (
            f"{verdict}: {_minutes(self.seconds)}, {self.kills.total()} kills ({kills}), "
            f"{self.restarts} drivers failed by themselves, {self.records:,} records in, {self.written:,} out"
        )


def torture_spark(
    broker: Broker,
    folder: Path,
    *,
    kinds: Sequence[str],
    rounds: int,
    seed: int,
    seconds: float | None = None,
    steps_per_second: int = 100,
    say: Say = lambda line: None,
) -> SparkReport:
    """Kill queries of these kinds in one driver, so many times or for so long. Takes a broker that is not started
    yet, and leaves it stopped."""
    folder.mkdir(parents=True, exist_ok=True)
    run = _Run(broker, folder, [KINDS[kind] for kind in kinds], seed, steps_per_second, say)
    try:
        run.kill_for(rounds, seconds)
        run.come_to_an_end()
    except AssertionError as error:
        run.report.faults.append(str(error))
    finally:
        run.close()
    return run.report


class _Run:
    def __init__(
        self,
        broker: Broker,
        folder: Path,
        kinds: list[Kind],
        seed: int,
        steps_per_second: int,
        say: Say,
    ) -> None:
        self._broker, self._kinds, self._seed = broker, kinds, seed
        self._say_line = say
        self._began = time.monotonic()
        self._restarts_in_a_row = 0
        self.report = SparkReport()
        broker.start()
        own = [topic for kind in kinds for topic in kind.made_by_query]
        topics = [topic for kind in kinds for topic in (*kind.inputs, *kind.outputs)]
        with Admin(broker.bootstrap) as admin:
            for topic in topics:
                if topic not in own:
                    admin.create_topic(topic, partitions=PARTITION_COUNT, config=KEPT)
            admin.create_topic(decisions.TOPIC, partitions=1, config=decisions.CONFIG)
        _fill_log_of_decisions(broker.bootstrap)
        # The output is read before the input, so that no input is missing for it.
        self._reader = Reader(broker.bootstrap, [topic for kind in kinds for topic in kind.outputs])
        self._input = Reader(broker.bootstrap, [topic for kind in kinds for topic in kind.inputs])
        self._feeder = Feeder(broker.bootstrap, kinds, seed=seed, steps_per_second=steps_per_second)
        self._driver = Driver(broker.bootstrap, folder, kinds)
        self._driver.start()

    # -- rounds

    def kill_for(self, rounds: int, seconds: float | None) -> None:
        for number in range(1, rounds + 1):
            if seconds is not None and time.monotonic() - self._began > seconds:
                return
            # One generator per round: what is killed does not depend on earlier rounds.
            rng = random.Random(f"{self._seed}:{number}")
            seen = self._counts()
            self._wait_until(lambda at=seen: self._is_ahead_of(at), "every query writes something")  # type: ignore[misc]
            time.sleep(rng.uniform(0.0, 3.0))
            killed = [self._kill(self._choice(rng, number), rng)]
            if number > len(KILLED) and rng.random() < AGAIN:
                time.sleep(rng.uniform(0.0, 12.0))
                killed.append(self._kill(rng.choice(KILLED), rng))
            self.report.rounds = number
            is_complete = self._look()
            self._say(f"round {number:3}/{rounds}", f"killed {', then '.join(killed)}")
            if is_complete:
                self._check()
            assert not self.report.faults, f"wrong after round {number}"

    def come_to_an_end(self) -> None:
        """All input is processed, to the last record."""
        self._feeder.stop()
        self._wait_until(self._is_all_there, self._what_is_missing)
        for records in self._feeder.last_records():
            self._feeder.send(records)
            self._wait_until(self._is_all_there, self._what_is_missing)
        self._say("the end", "all input was processed")

    def close(self) -> None:
        self._feeder.stop()
        self._driver.close()
        if self._look():
            self._check()
            self._check_once_more()
        else:
            self.report.faults.append("the output cannot be read")
        self.report.records, self.report.written = self._input.count, self._reader.count
        self.report.seconds = time.monotonic() - self._began
        for reader in (self._reader, self._input):
            reader.close()
        self._broker.stop()

    # -- kills

    def _choice(self, rng: random.Random, number: int) -> str:
        """First each kind in turn, so that a short run has all of them."""
        return KILLED[-number] if number <= len(KILLED) else rng.choice(KILLED)

    def _kill(self, what: str, rng: random.Random) -> str:
        leaves_workers, away_s = rng.random() < 0.5, rng.choice([0.0, 0.0, 1.0, 5.0])
        description = what
        if what == WORKER:
            module = self._driver.kill_worker(rng)
            description = f"{WORKER} ({module})"
            if module is None:  # there is none yet
                what = DRIVER
        if what == DRIVER:
            description = f"{DRIVER}{', not its workers' if leaves_workers else ''}"
            self._driver.kill(leaves_workers=leaves_workers)
            self._driver.start()
        elif what == BROKER:
            description = f"{BROKER}{f', for {away_s:.0f} s' if away_s else ''}"
            self._broker.kill()
            time.sleep(away_s)
            self._broker.start()
        self.report.kills[what] += 1
        return description

    # -- checks

    def _look(self) -> bool:
        """Read on; whether a broker answered."""
        is_output_read = self._reader.look()
        return self._input.look() and is_output_read

    def _counts(self) -> list[int]:
        return [len(self._reader.rows[kind.outputs[0]]) for kind in self._kinds]

    def _is_ahead_of(self, counts: list[int]) -> bool:
        self._keep_alive()
        self._look()
        return all(now > before for now, before in zip(self._counts(), counts, strict=True))

    def _is_all_there(self) -> bool:
        self._keep_alive()
        self._look()
        return not any(kind.missing(self._found) for kind in self._kinds)

    def _what_is_missing(self) -> str:
        missing = [one for kind in self._kinds for one in kind.missing(self._found)]
        return f"all input is sent; {len(missing)} are missing: {'; '.join(missing[:SHOWN_COUNT])}"

    def _check(self) -> None:
        for kind in self._kinds:
            wrong = kind.wrong(self._found)
            new = [f"{kind.name}: {fault}" for fault in wrong[:SHOWN_COUNT]]
            self.report.faults += [fault for fault in new if fault not in self.report.faults]

    def _check_once_more(self) -> None:
        """Output that was read once stays: another reader sees the same from the start, and no transaction is open."""
        with Reader(self._broker.bootstrap, list(self._reader.rows)) as other:
            is_read = other.look()
            for topic, rows in other.rows.items():
                if not is_read or sorted(rows, key=_place) != sorted(self._reader.rows[topic], key=_place):
                    self.report.faults.append(f"{topic}: a second reader does not see the same")
        with Admin(self._broker.bootstrap) as admin:
            hanging = admin.list_transactions(states=["Ongoing"])
        self.report.faults += [f"open: {each.transactional_id}" for each in hanging[:SHOWN_COUNT]]

    @property
    def _found(self) -> Found:
        return {**self._reader.rows, **self._input.rows}

    # -- helpers

    def _keep_alive(self) -> None:
        if not self._driver.is_alive:
            self.report.restarts += 1
            self._restarts_in_a_row += 1
            assert self._restarts_in_a_row <= RESTARTS_MAX, (
                f"it only fails; see the driver's log {self._driver.log}"
            )
            self._say("", f"the driver failed and is restarted: {self._driver.last_error()}")
            self._driver.start()

    def _wait_until(self, is_so: Callable[[], bool], what: str | Callable[[], str]) -> None:
        self._restarts_in_a_row = 0
        deadline = time.monotonic() + PROGRESS_SECONDS
        while not is_so():
            if time.monotonic() > deadline:
                description = what if isinstance(what, str) else what()
                raise AssertionError(
                    f"not within {PROGRESS_SECONDS:.0f} s: {description}; see the driver's log {self._driver.log}"
                )
            time.sleep(POLL_SECONDS)

    def _say(self, when: str, what: str) -> None:
        name = "+".join(kind.name for kind in self._kinds)
        minutes = _minutes(time.monotonic() - self._began)
        self._say_line(
            f"{name:9}  {minutes}  {when:13}  {self._feeder.sent:8,} in {self._reader.count:8,} out  {what}"
        )


def _fill_log_of_decisions(bootstrap: str) -> None:
    """Adds entries of another sink, so that a successor of a killed process has to read the end of a long log."""
    with Producer(bootstrap) as producer:
        for number in range(decisions.TAILS[0] + 100):
            claim = Claim("of-old", run=f"run-{number}", replaces=f"run-{number - 1}")
            producer.send(decisions.TOPIC, to_json(claim), key=key_of(claim, str(number)))


def _place(row: Row) -> tuple[int, int]:
    return row.partition, row.offset


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
