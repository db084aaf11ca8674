"""Programs that consume, transform and produce in transactions, in several languages, driven and watched alike.

A transformer is a process. The first line of its stdin is its order, `{"bootstrap", "group", "input", "output",
"transactional_id", "lump_records", "abort_one_in", "consumer", "producer"}`; when stdin ends it leaves. It reads the
input as a member of the group, writes `partition:offset:value` for every record to the partition of the same number of
the output, and commits in one transaction what it wrote and how far it read. One transaction of `abort_one_in` in a row
it rolls back for no reason. On stdout it tells `{"event", "count", "error"}`: `committed` or `aborted` with the number
of records, `replaced` where only a new producer got over something, and `left`, or `failed`, at the end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compat.clients.java import CURRENT, JVM_OPTIONS, class_path
from compat.groups.members import END_SECONDS, GO_PROGRAM, NODE_MODULES, PROGRAMS
from harness.brokers import KAFKA_CACHE, tool

LUMP_RECORDS = 20
ABORT_ONE_IN = 4
COMPLAINT_BYTES = 4096
Settings = Mapping[str, object]


@dataclass(frozen=True, eq=False)
class Client:
    """A client library, and how its transformers are started."""

    name: str
    command: Callable[[], Sequence[str]]
    consumer: Settings = field(default_factory=dict)
    producer: Settings = field(default_factory=dict)
    transformer_count: int = 2
    """Of one group. Who commits offsets without saying as which member cannot be held off, so that there is but one."""

    def __str__(self) -> str:
        return self.name


@dataclass(slots=True)
class Tally:
    """What the transformers of one pipeline told, counted."""

    committed: int = 0
    """Records in transactions that were committed."""
    transactions: int = 0
    aborted: Counter[str] = field(default_factory=Counter)
    """Transactions that were rolled back, by the reason."""
    replaced: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)


class Pipeline:
    """The transformers of one client from one topic to another; where one is killed, another takes its place."""

    def __init__(self, client: Client, bootstrap: str, *, source: str, target: str) -> None:
        self.client = client
        self.source = source
        self.target = target
        self.group = f"{target}-group"
        self.tally = Tally()
        self._bootstrap = bootstrap
        self._lock = threading.Lock()
        self._running: dict[int, Transformer] = {}

    def start(self) -> None:
        for number in range(self.client.transformer_count):
            self._start(number)

    def replace(self, number: int) -> None:
        """Kills one, in the middle of whatever it does; the one that comes after it has the same transactional id."""
        self._running[number].kill()
        self._start(number)

    def stop(self) -> None:
        for transformer in self._running.values():
            transformer.leave()
        for transformer in self._running.values():
            transformer.close()
        self._running.clear()

    def kill(self) -> None:
        for transformer in self._running.values():
            transformer.kill()
        self._running.clear()

    def _start(self, number: int) -> None:
        order = {
            "bootstrap": self._bootstrap,
            "group": self.group,
            "input": self.source,
            "output": self.target,
            "transactional_id": f"{self.target}-{number}",
            "lump_records": LUMP_RECORDS,
            "abort_one_in": ABORT_ONE_IN,
            "consumer": dict(self.client.consumer),
            "producer": dict(self.client.producer),
        }
        self._running[number] = Transformer(self.client.command(), order, self._take)

    def _take(self, event: str, count: int, error: str) -> None:
        with self._lock:
            if event == "committed":
                self.tally.committed += count
                self.tally.transactions += 1
            elif event == "aborted":
                self.tally.aborted[error] += 1
            elif event == "replaced":
                self.tally.replaced[error] += 1
            elif event == "failed":
                self.tally.failed.append(f"{self.client}: {error}")


class Transformer:
    """One of the processes."""

    def __init__(
        self, command: Sequence[str], order: Settings, take: Callable[[str, int, str], None]
    ) -> None:
        self._take = take
        self._is_killed = False
        self._has_left = False
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, closed with the process
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": "ignore", "NODE_PATH": str(NODE_MODULES)},
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        self._reader = threading.Thread(target=self._read, name="transformer", daemon=True)
        self._reader.start()

    def leave(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def kill(self) -> None:
        self._is_killed = True
        self._process.kill()
        self.close()

    def close(self) -> None:
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            self._reader.join(END_SECONDS)
            for stream in (self._process.stdin, self._process.stdout, self._errors):
                if stream is not None and not stream.closed:
                    stream.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith("\n"):
                break  # killed in the middle of a word
            told = json.loads(line)
            self._has_left |= told["event"] in ("left", "failed")
            self._take(told["event"], told["count"], told["error"])
        if not self._has_left and not self._is_killed:
            size = os.fstat(self._errors.fileno()).st_size
            words = os.pread(self._errors.fileno(), COMPLAINT_BYTES, max(0, size - COMPLAINT_BYTES))
            self._take("failed", 0, f"it ended without a word: {words.decode('utf-8', 'replace')}")


def _python(program: str, interpreter: str | Path = sys.executable) -> Callable[[], Sequence[str]]:
    return lambda: [str(interpreter), str(PROGRAMS / program)]


def _java(version: str = CURRENT) -> Callable[[], Sequence[str]]:
    def command() -> Sequence[str]:
        json_jars = map(str, (KAFKA_CACHE / "libs").glob("jackson-*.jar"))
        path = ":".join([class_path(version), *json_jars])
        return [tool("java"), *JVM_OPTIONS, "-cp", path, "Transformer"]

    return command


def _node() -> Sequence[str]:
    return [tool("node"), str(PROGRAMS / "kafkajs" / "transformer.js")]


def _go() -> Sequence[str]:
    return [str(GO_PROGRAM), "transform"]


SESSION_MS = 3000
LIBRDKAFKA = {"heartbeat.interval.ms": 200, "session.timeout.ms": SESSION_MS, "fetch.wait.max.ms": 50}
JAVA = {"heartbeat.interval.ms": "200", "session.timeout.ms": str(SESSION_MS), "fetch.max.wait.ms": "50"}
PYTHON = {"heartbeat_interval_ms": 200, "session_timeout_ms": SESSION_MS, "fetch_max_wait_ms": 50}

CONFLUENT = Client(
    "confluent",
    _python("confluent_transformer.py"),
    {**LIBRDKAFKA, "partition.assignment.strategy": "cooperative-sticky"},
)
CONFLUENT_NEW = Client(
    "confluent-consumer",
    _python("confluent_transformer.py"),
    {"group.protocol": "consumer", "fetch.wait.max.ms": 50},
)
JAVA_CLASSIC = Client("java", _java(), {**JAVA, "group.protocol": "classic"})
JAVA_NEW = Client("java-consumer", _java(), {"group.protocol": "consumer", "fetch.max.wait.ms": "50"})
AIOKAFKA = Client("aiokafka", _python("aiokafka_transformer.py"), PYTHON, transformer_count=1)
# After a crash of its broker a pipeline of kafka-python 3.0.12 loses records or has them twice, with Kafka as with us;
# why is not known, so it is not asked to survive one.
KAFKA_PYTHON = Client("kafka-python", _python("kafka_python_transformer.py"), PYTHON, transformer_count=1)
KAFKAJS = Client(
    "kafkajs",
    _node,
    {"heartbeatInterval": 200, "sessionTimeout": SESSION_MS, "maxWaitTimeInMs": 50},
    transformer_count=1,
)
FRANZ = Client("franz-go", _go)
JAVA_3 = Client("java-3.9.2", _java("3.9.2"), JAVA)
JAVA_2 = Client("java-2.0.1", _java("2.0.1"), JAVA, transformer_count=1)
SERVED_BY_KAFKA_4 = [
    CONFLUENT, CONFLUENT_NEW, JAVA_CLASSIC, JAVA_NEW, JAVA_3, AIOKAFKA, KAFKA_PYTHON, KAFKAJS, FRANZ
]  # fmt: skip
ALL = [*SERVED_BY_KAFKA_4, JAVA_2]
IN_CRASHES = [CONFLUENT, CONFLUENT_NEW, JAVA_CLASSIC, JAVA_NEW, AIOKAFKA, KAFKAJS, FRANZ]
