"""Kill a Spark query with SIGKILL, its Python workers, its driver and its broker: what goes in comes out once.

A feeder numbers records, and writes some of them twice for queries with state: one drops duplicates, one counts, in
update mode. Whatever dies is started again: the broker at once, the driver as a supervisor would. At the end the
output, read as committed records, must hold every number of the input exactly once, or every count once and the last
one right, and no transaction may be open.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from harness.brokers import ROOT, Broker
from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.client import errors

SETTINGS = {
    "transaction.two.phase.commit.enable": "true",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "4",
}
PROGRAM = Path(__file__).with_name("spark_query.py")
KINDS = "stateless", "stateful", "updating"
PARTITION_COUNT = 3
OUTPUT = [TopicPartition("out", number) for number in range(PARTITION_COUNT)]
RECORDS_PER_SECOND = 200
TWICE = 0.2  # of the records, where duplicates are dropped
PROGRESS_SECONDS = 240.0  # for a driver that starts on a busy machine
DELIVERY_MS = 240_000
POLL_SECONDS = 0.5  # each look at the output costs what the query could use
SHOWN_COUNT = 5


@dataclass(slots=True)
class SparkReport:
    rounds: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    restarts: int = 0
    """Of drivers that ended by themselves."""
    records: int = 0
    faults: list[str] = field(default_factory=list)


class Feeder:
    """Writes numbers until it is stopped; what the topic holds is what was written."""

    def __init__(self, bootstrap: str, *, twice: float, seed: int) -> None:
        self._bootstrap = bootstrap
        self._twice = twice
        self._rng = random.Random(seed)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(PROGRESS_SECONDS)
        assert not self._thread.is_alive(), "the feeder does not end"

    def _run(self) -> None:
        number = 0
        with Producer(self._bootstrap, delivery_timeout_ms=DELIVERY_MS, max_block_ms=60_000) as producer:
            while not self._stopping.wait(0.05):
                for _ in range(RECORDS_PER_SECOND // 20):
                    for _ in range(2 if self._rng.random() < self._twice else 1):
                        producer.send("in", str(number), partition=self._rng.randrange(PARTITION_COUNT))
                    number += 1


class Driver:
    """The query's process, and those that it has started."""

    def __init__(self, broker: Broker, folder: Path, kind: str) -> None:
        self._arguments = [sys.executable, str(PROGRAM), broker.bootstrap, str(folder / "checkpoint"), kind]
        self.log = folder / "driver.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYSPARK_PYTHON": sys.executable}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._arguments, stdout=log, stderr=log, env=environment, start_new_session=True
            )

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self, *, leaves_workers: bool) -> None:
        """The driver and its JVM at once; what Python workers are about to do they may still do."""
        assert self.process is not None
        family = self._family()
        for each in family:
            if not leaves_workers or not _is_python_worker(each):
                _kill(each)
        self.process.kill()
        self.process.wait()
        psutil.wait_procs(family, timeout=30)

    def kill_worker(self, rng: random.Random) -> bool:
        workers = [each for each in self._family() if _is_python_worker(each)]
        if workers:
            _kill(rng.choice(sorted(workers, key=lambda each: each.pid)))
        return bool(workers)

    def _family(self) -> list[psutil.Process]:
        assert self.process is not None
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []


def torture_spark(
    broker: Broker,
    folder: Path,
    *,
    kind: str,
    rounds: int,
    seed: int,
    deadline_s: float | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> SparkReport:
    """Runs it all on a broker that is not started yet, and leaves it stopped."""
    rng = random.Random(seed)
    report = SparkReport()
    folder.mkdir(parents=True, exist_ok=True)
    broker.start()
    with Admin(broker.bootstrap) as admin:
        for topic in ("in", "out"):
            admin.create_topic(topic, partitions=PARTITION_COUNT)
    feeder = Feeder(broker.bootstrap, twice=0.0 if kind == "stateless" else TWICE, seed=seed)
    driver = Driver(broker, folder, kind)
    began = time.monotonic()
    try:
        driver.start()
        for number in range(1, rounds + 1):
            if deadline_s is not None and time.monotonic() - began > deadline_s:
                break
            written = _end(broker)
            wait_until(
                lambda at=written: _keep_alive(driver, report, say) and _end(broker) > at,  # type: ignore[misc]
                f"the query writes something; its log is {driver.log}",
            )
            time.sleep(rng.uniform(0.0, 3.0))
            what = _kill_something(rng, number, broker, driver)
            report.kills[what] += 1
            report.rounds = number
            say(f"{kind}, round {number:3}/{rounds}: killed {what}; {_end(broker):,} offsets in the output")
        feeder.stop()
        expected = _expected(broker, kind)
        wait_until(
            lambda: _keep_alive(driver, report, say) and expected <= set(_read(broker, "out")),
            f"all is written; the log of the driver is {driver.log}",
        )
    except AssertionError as error:
        report.faults.append(str(error))
    finally:
        if driver.is_alive:
            driver.kill(leaves_workers=False)
    report.faults += _faults(broker, kind, report)
    broker.stop()
    return report


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PROGRESS_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"not within {PROGRESS_SECONDS:.0f} s: {what}"
        time.sleep(POLL_SECONDS)


def _kill_something(rng: random.Random, number: int, broker: Broker, driver: Driver) -> str:
    """Each kind in turn to begin with, so that a short run has them all."""
    kinds = ["a worker", "the driver", "the broker"]
    what = kinds[number % 3] if number <= 3 else rng.choice(kinds)
    if what == "a worker" and not driver.kill_worker(rng):
        what = "the driver"
    if what == "the driver":
        driver.kill(leaves_workers=rng.random() < 0.5)
        driver.start()
    elif what == "the broker":
        broker.kill()
        time.sleep(rng.choice([0.0, 0.0, 1.0, 5.0]))
        broker.start()
    return what


def _keep_alive(driver: Driver, report: SparkReport, say: Callable[[str], None]) -> bool:
    if not driver.is_alive:
        report.restarts += 1
        say(f"the driver ended by itself and is started again: {_last_words(driver.log)}")
        driver.start()
    return True


def _last_words(log: Path) -> str:
    lines = [
        line
        for line in log.read_text(errors="replace").splitlines()
        if "Error" in line or "Exception" in line
    ]
    return lines[-1][:300] if lines else "no words"


def _end(broker: Broker) -> int:
    """How long the output is, markers and what was aborted included."""
    try:
        with Consumer("out", bootstrap_servers=broker.bootstrap) as consumer:
            return sum(consumer.end_offsets(OUTPUT).values())
    except errors.PenstockError:
        return 0


def _read(broker: Broker, topic: str) -> list[str]:
    consumer = Consumer(topic, bootstrap_servers=broker.bootstrap, isolation_level="read_committed")
    with consumer:
        return [value.decode() for value in consumer.read(until="end").to_arrow().column("value").to_pylist()]


def _expected(broker: Broker, kind: str) -> set[str]:
    """What the output must hold when all is done, each of it once."""
    counts = Counter(_read(broker, "in"))
    if kind == "updating":
        return {f"{number}:{count}" for number, count in counts.items()}
    return set(counts)


def _allowed(expected: set[str], kind: str) -> set[str]:
    """And what may be there besides, each of it once: counts on the way to the last."""
    if kind != "updating":
        return expected
    ends = [entry.split(":") for entry in expected]
    return {f"{number}:{count}" for number, end in ends for count in range(1, int(end) + 1)}


def _faults(broker: Broker, kind: str, report: SparkReport) -> list[str]:
    expected, found = _expected(broker, kind), Counter(_read(broker, "out"))
    report.records = len(expected)
    missing = sorted(expected - set(found))
    surplus = sorted(entry for entry, count in found.items() if count > 1)
    strange = sorted(set(found) - _allowed(expected, kind))
    faults = [
        f"{len(entries)} of {len(expected)} {what}, as {entries[:SHOWN_COUNT]}"
        for entries, what in ((missing, "are missing"), (surplus, "are there twice"), (strange, "are wrong"))
        if entries
    ]
    with Admin(broker.bootstrap) as admin:
        hanging = admin.list_transactions(states=["Ongoing"])
    return faults + [f"open: {each.transactional_id}" for each in hanging[:SHOWN_COUNT]]


def _is_python_worker(process: psutil.Process) -> bool:
    try:
        return any("daemon" in part for part in process.cmdline()) and "python" in process.name()
    except psutil.NoSuchProcess:
        return False


def _kill(process: psutil.Process) -> None:
    try:
        process.send_signal(signal.SIGKILL)
    except psutil.NoSuchProcess:
        return
