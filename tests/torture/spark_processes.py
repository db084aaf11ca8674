"""The processes of the Spark torture: the feeder, the driver with its child processes, and the reader."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Self

import psutil

from harness.brokers import penstock_command, penstock_environment
from penstock import Consumer, Producer, TopicPartition
from penstock.client import errors
from torture.spark_kinds import Kind, Row, Sent

PROGRAM = Path(__file__).with_name("spark_query.py")
WAIT_SECONDS = 0.05
DELIVERY_MS = 240_000  # everything is delivered, whatever happens to the broker
BLOCK_MS = 60_000
END_SECONDS = 300.0
AT_START = {"create_data_source", "lookup_data_sources", "plan_data_source_read", "write_into_data_source"}
"""Python processes that are needed only when a query starts."""
COLUMNS = ["topic", "partition", "offset", "timestamp", "key", "value"]


class Feeder:
    """Sends the input of the kinds until stopped."""

    def __init__(self, bootstrap: str, kinds: Sequence[Kind], *, seed: int, steps_per_second: int) -> None:
        self._bootstrap = bootstrap
        self._kinds = kinds
        self._steps = max(1, round(steps_per_second * WAIT_SECONDS))
        self._rng = random.Random(seed)
        self._number = 0
        self._stopping = threading.Event()
        self.sent = 0
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(END_SECONDS)
        assert not self._thread.is_alive(), "the feeder did not stop"

    def last_records(self) -> Iterator[list[Sent]]:
        return chain.from_iterable(kind.last_records(self._number) for kind in self._kinds)

    def send(self, records: Sequence[Sent]) -> None:
        with self._producer() as producer:
            self._send(producer, records)

    def _run(self) -> None:
        with self._producer() as producer:
            while not self._stopping.wait(WAIT_SECONDS):
                for _ in range(self._steps):
                    for kind in self._kinds:
                        self._send(producer, kind.feed(self._number, self._rng))
                    self._number += 1

    def _producer(self) -> Producer:
        return Producer(self._bootstrap, delivery_timeout_ms=DELIVERY_MS, max_block_ms=BLOCK_MS)

    def _send(self, producer: Producer, records: Iterator[Sent] | Sequence[Sent]) -> None:
        for topic, value, key, partition, timestamp_ms in records:
            producer.send(topic, value, key=key, partition=partition, timestamp_ms=timestamp_ms)
            self.sent += 1


class Reader:
    """Reads topics with read_committed, through all restarts of their broker."""

    def __init__(self, bootstrap: str, topics: Sequence[str]) -> None:
        self.rows: dict[str, list[Row]] = {topic: [] for topic in topics}
        self._waiting = list(topics)
        """For topics that a query has yet to create."""
        self._consumer = Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed")

    @property
    def count(self) -> int:
        return sum(map(len, self.rows.values()))

    def look(self) -> bool:
        """Read to the end. If the broker is down, the next call continues there."""
        try:
            self._take_on_topics()
            for batch in self._consumer.read(until="end", headers=False):
                for row in batch.select(COLUMNS).to_pylist():
                    at_ms = round(row["timestamp"].timestamp() * 1000)
                    read = Row(row["key"], row["value"], at_ms, row["partition"], row["offset"])
                    self.rows[row["topic"]].append(read)
        except errors.PenstockError:
            return False
        return True

    def close(self) -> None:
        self._consumer.close()

    def _take_on_topics(self) -> None:
        there = self._consumer.topics() if self._waiting else frozenset()
        for topic in [topic for topic in self._waiting if topic in there]:
            count = len(self._consumer.partitions_for(topic))
            places = dict.fromkeys(self._consumer.assignment(), 0) | self._consumer.positions()
            places |= {TopicPartition(topic, index): 0 for index in range(count)}
            self._consumer.assign(places)
            for partition, offset in places.items():
                self._consumer.seek(partition, offset)
            self._waiting.remove(topic)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Driver:
    """The process of the queries, and its child processes."""

    def __init__(self, bootstrap: str, folder: Path, kinds: Sequence[Kind]) -> None:
        self._command = _command(bootstrap, folder, kinds)
        self._environment = {
            **penstock_environment(),
            "PYSPARK_PYTHON": sys.executable,
            "XDG_STATE_HOME": str(folder / "state"),  # where applications keep their state
        }
        self.log = folder / "driver.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env=self._environment, start_new_session=True
            )

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self, *, leaves_workers: bool) -> None:
        """The driver and its JVM at once. Python workers may finish their current work."""
        assert self._process is not None
        family = self._family()
        for each in family:
            if not leaves_workers or not _is_python_worker(each):
                _kill(each)
        self._process.kill()
        self._process.wait()
        psutil.wait_procs(family, timeout=30)

    def kill_worker(self, rng: random.Random) -> str | None:
        """A process that runs tasks, forks workers, plans batches or commits them; its name, or None."""
        workers = [each for each in self._family() if _is_python_worker(each)]
        if not workers:
            return None
        workers.sort(key=lambda each: each.pid)
        modules = list(map(_module_of, workers))
        (at,) = rng.choices(range(len(workers)), [1 if module in AT_START else 5 for module in modules])
        _kill(workers[at])
        return modules[at]

    def close(self) -> None:
        if self._process is not None:
            self.kill(leaves_workers=False)

    def last_error(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        lines_with_errors = [
            line for line in lines if "Error" in line or "Exception" in line or "failed" in line
        ]
        return lines_with_errors[-1].strip()[:300] if lines_with_errors else "no error"

    def _family(self) -> list[psutil.Process]:
        assert self._process is not None
        try:
            return psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []


def _command(bootstrap: str, folder: Path, kinds: Sequence[Kind]) -> list[str]:
    """A streams application runs like a user would run it."""
    if len(kinds) > 1 or kinds[0].app is None:
        return [sys.executable, str(PROGRAM), bootstrap, str(folder), *(kind.name for kind in kinds)]
    settings = {
        "spark.driver.memory": "1g",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    arguments = [argument for name, value in settings.items() for argument in ("--set", f"{name}={value}")]
    place = ["--brokers", bootstrap, "--spark", "local[2,4]"]
    return [*penstock_command(), "pipeline", "run", str(kinds[0].app), *place, *arguments]


def _is_python_worker(process: psutil.Process) -> bool:
    """All Python processes except the driver's own, which is not a child here."""
    try:
        return process.name().startswith("python")
    except psutil.NoSuchProcess:
        return False


def _module_of(process: psutil.Process) -> str:
    """How it was started: the last part of `python -m pyspark.daemon pyspark.worker`."""
    try:
        return process.cmdline()[-1].rpartition(".")[2]
    except (psutil.NoSuchProcess, psutil.ZombieProcess, IndexError):
        return "python"


def _kill(process: psutil.Process) -> None:
    try:
        os.kill(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
