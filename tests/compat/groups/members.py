"""Group members, run by programs in several languages with the same commands and reports.

A host is a process that runs any number of members. It reads commands on stdin, one per line, `{"do": "join",
"member", "bootstrap", "group", "topics", "settings"}` or `{"do": "leave", "member"}`, and writes events on stdout,
`{"member", "at", "event", "partitions", "records", "error"}` (see `history.Event`). A member commits what it read
before it gives up a partition. When stdin ends, all members leave. Killing a host crashes its members.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compat.clients.java import CURRENT
from compat.clients.kafka_python import OLD_INTERPRETER
from compat.groups.history import Event, History, delivered, is_shared, owned
from compat.processes import Command, Program, go, java, node, python

Settings = Mapping[str, object]


@dataclass(frozen=True, eq=False)
class Client:
    """A client library with its settings, and how its host is started."""

    name: str
    command: Command
    settings: Settings = field(default_factory=dict)
    is_exactly_once: bool = True
    """Whether it commits everything delivered before it gives up a partition, unless it crashes."""
    is_new: bool = False
    """Whether its groups are of the type `consumer`."""

    def __str__(self) -> str:
        return self.name


class Host:
    """A running host. It may run members of several groups; each group has its own history."""

    def __init__(self, command: Sequence[str]) -> None:
        self._histories: dict[str, History] = {}
        self._program = Program(command, take=self._take, end=self._ended)

    def join(
        self,
        member: str,
        history: History,
        *,
        bootstrap: str,
        group: str,
        topics: Sequence[str],
        settings: Settings,
    ) -> None:
        name = f"{group}/{member}"
        assert name not in self._histories, f"{name} is already a member"
        self._histories[name] = history
        self._program.order(
            {
                "do": "join",
                "member": name,
                "bootstrap": bootstrap,
                "group": group,
                "topics": list(topics),
                "settings": dict(settings),
            }
        )

    def leave(self, member: str, *, group: str) -> None:
        self._program.order({"do": "leave", "member": f"{group}/{member}"})

    def kill(self) -> None:
        """Its members crash, and own nothing from then on."""
        self._program.kill()

    def freeze(self) -> None:
        """Its members freeze in the middle of their work, without noticing."""
        self._program.freeze()

    def thaw(self) -> None:
        self._program.thaw()

    def close(self) -> None:
        self._program.close()

    def _take(self, event: dict[str, Any]) -> None:
        history = self._histories[event["member"]]
        if event["event"] == "left":
            del self._histories[event["member"]]  # the name may be used again
        history.add(Event.parse({**event, "member": _short(event["member"])}))

    def _ended(self, error_output: str) -> None:
        for name, history in self._histories.items():
            member, now_us = _short(name), time.time_ns() // 1000
            if self._program.is_killed:
                history.add(Event(member, now_us, "crashed"))
            else:
                history.add(Event(member, now_us, "failed", error=f"its host exited: {error_output}"))


class Group:
    """A group with one topic, under the control of a test."""

    def __init__(self, bootstrap: str, group: str, topic: str, *, partition_count: int) -> None:
        self.bootstrap = bootstrap
        self.id = group
        self.topic = topic
        self.partition_count = partition_count
        self.history = History()
        self._hosts: dict[str, Host] = {}

    def join(self, host: Host, member: str, settings: Settings) -> None:
        self._hosts[member] = host
        host.join(
            member,
            self.history,
            bootstrap=self.bootstrap,
            group=self.id,
            topics=[self.topic],
            settings=settings,
        )

    def leave(self, *members: str) -> None:
        """Return when they have left."""
        before = self._count_left()
        for member in members:
            self._hosts.pop(member).leave(member, group=self.id)
        self.history.wait_until(
            lambda events: sum(event.kind == "left" for event in events) == before + len(members),
            f"{', '.join(members)} left",
        )

    def forget(self, member: str) -> None:
        """The member's process was killed."""
        del self._hosts[member]

    def leave_all(self) -> None:
        self.leave(*self._hosts)

    def wait_until_shared_by(self, *members: str) -> None:
        self.history.wait_until(
            lambda events: is_shared(events, members, self.partition_count),
            f"{', '.join(members)} share all partitions and read from them",
        )

    def wait_until_read(self, written: Mapping[tuple[int, int], int]) -> None:
        self.history.wait_until(
            lambda events: delivered(events).keys() >= written.keys(),
            lambda events: f"these are read: {sorted(written.keys() - delivered(events).keys())[:5]}",
        )

    def owned(self) -> dict[str, set[int]]:
        return {
            member: partitions for member, partitions in owned(self.history.events()).items() if partitions
        }

    def _count_left(self) -> int:
        return sum(event.kind == "left" for event in self.history.events())


def _short(name: str) -> str:
    return name.rpartition("/")[2]


def _java(version: str = CURRENT) -> Command:
    return java("GroupMembers", version)


LIBRDKAFKA = {"heartbeat.interval.ms": 200, "session.timeout.ms": 6000, "fetch.wait.max.ms": 50}
JAVA = {"heartbeat.interval.ms": "200", "session.timeout.ms": "6000", "fetch.max.wait.ms": "50"}
PYTHON = {"heartbeat_interval_ms": 200, "session_timeout_ms": 6000, "fetch_max_wait_ms": 50}
NEW = {"group.protocol": "consumer", "fetch.wait.max.ms": 50}
NEW_JAVA = {"group.protocol": "consumer", "fetch.max.wait.ms": "50"}
JAVA_ASSIGNORS = "org.apache.kafka.clients.consumer."

CONFLUENT_RANGE = Client(
    "confluent-range",
    python("confluent_members.py"),
    {**LIBRDKAFKA, "partition.assignment.strategy": "range"},
)
CONFLUENT_COOPERATIVE = Client(
    "confluent-cooperative-sticky",
    python("confluent_members.py"),
    {**LIBRDKAFKA, "partition.assignment.strategy": "cooperative-sticky"},
)
CONFLUENT_NEW = Client("confluent-consumer", python("confluent_members.py"), NEW, is_new=True)
CONFLUENT_NEW_RANGE = Client(
    "confluent-consumer-range",
    python("confluent_members.py"),
    {**NEW, "group.remote.assignor": "range"},
    is_new=True,
)
AIOKAFKA = Client("aiokafka", python("aiokafka_members.py"), {**PYTHON, "assignor": "roundrobin"})
AIOKAFKA_RANGE = Client("aiokafka-range", python("aiokafka_members.py"), {**PYTHON, "assignor": "range"})
KAFKA_PYTHON = Client("kafka-python", python("kafka_python_members.py"), {**PYTHON, "assignor": "range"})
KAFKA_PYTHON_COOPERATIVE = Client(
    "kafka-python-cooperative-sticky",
    python("kafka_python_members.py"),
    {**PYTHON, "assignor": "cooperative-sticky"},
)
JAVA_RANGE = Client(
    "java-range", _java(), {**JAVA, "partition.assignment.strategy": JAVA_ASSIGNORS + "RangeAssignor"}
)
JAVA_COOPERATIVE = Client(
    "java-cooperative-sticky",
    _java(),
    {**JAVA, "partition.assignment.strategy": JAVA_ASSIGNORS + "CooperativeStickyAssignor"},
)
JAVA_NEW = Client("java-consumer", _java(), NEW_JAVA, is_new=True)
KAFKAJS = Client(
    "kafkajs", node("members.js"), {"heartbeatInterval": 200, "sessionTimeout": 6000, "maxWaitTimeInMs": 50}
)
FRANZ_COOPERATIVE = Client("franz-go-cooperative-sticky", go(), {"balancer": "cooperative-sticky"})
FRANZ_RANGE = Client("franz-go-range", go(), {"balancer": "range"})
PENSTOCK_RANGE = Client(
    "penstock-range", python("penstock_members.py"), {**JAVA, "partition.assignment.strategy": "range"}
)
PENSTOCK_STICKY = Client(
    "penstock-sticky", python("penstock_members.py"), {**JAVA, "partition.assignment.strategy": "sticky"}
)
PENSTOCK_COOPERATIVE = Client(
    "penstock-cooperative-sticky",
    python("penstock_members.py"),
    {**JAVA, "partition.assignment.strategy": "cooperative-sticky"},
)
PENSTOCK_NEW = Client("penstock-consumer", python("penstock_members.py"), NEW_JAVA, is_new=True)


def old_java(version: str) -> Client:
    settings = {**JAVA, "partition.assignment.strategy": JAVA_ASSIGNORS + "RangeAssignor"}
    return Client(f"java-{version}", _java(version), settings)


def old_kafka_python(*broker_version: int) -> Client:
    """kafka-python 1.4.7, configured for a broker of that version, whose protocol it uses."""
    settings = {**PYTHON, "assignor": "range", "api_version": broker_version}
    name = f"kafka-python-1.4.7-as-of-{'.'.join(map(str, broker_version))}"
    return Client(name, python("kafka_python_members.py", OLD_INTERPRETER), settings)
