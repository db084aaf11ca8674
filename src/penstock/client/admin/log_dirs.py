"""Log directories: their replicas and free space, and moving replicas between those of one broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls
from penstock.client.admin.results import Results
from penstock.client.cluster import TopicPartition
from penstock.client.errors import PenstockError


class Replica(NamedTuple):
    """The replica of a partition on one broker."""

    topic: str
    partition: int
    broker: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} on broker {self.broker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSize:
    """The size and lag of a replica in a log directory."""

    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    """Its lag behind the high watermark; for a future replica, behind the one that it will replace."""
    is_future: bool
    """Whether it is a replica that is moving to this directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectory:
    """A log directory of a broker, with its replicas."""

    path: str
    replicas: tuple[ReplicaSize, ...]
    error: PenstockError | None = None
    """Why it is offline."""
    total_bytes: int | None = None
    """Of the volume; None if the broker does not say (before Kafka 3.3)."""
    usable_bytes: int | None = None
    is_cordoned: bool = False
    """Takes no new replicas (KIP-1066)."""


class LogDirsAdmin(AdminCalls):
    async def describe_log_dirs(
        self,
        brokers: Iterable[int] | None = None,
        *,
        topics: Iterable[str] | None = None,
        timeout: float | None = None,
    ) -> dict[int, list[LogDirectory]]:
        """The log directories of the given brokers, or of all, with the replicas of the given topics, or of all."""
        call = self._begin("describe log directories", timeout)
        wanted = None if topics is None else await call.partitions_of(topics)
        request = wire.log_dirs.describe_request(wanted)
        if brokers is None:
            result = await call.ask_all_brokers(request)
            return {broker: wire.log_dirs.read_described(response) for broker, response in result.items()}

        async def ask(broker: int | None, _: list[int]) -> Results[int, list[LogDirectory]]:
            assert broker is not None
            return {broker: wire.log_dirs.read_described(await call.ask_node(broker, request))}

        return await call.run_each(brokers, call.by_node(_themselves, ask))

    async def alter_replica_log_dirs(
        self,
        directories: Mapping[Replica, str] | Mapping[tuple[str, int, int], str],
        *,
        timeout: float | None = None,
    ) -> dict[Replica, None]:
        """Start to move replicas to other directories of their brokers: `{("orders", 0, 1): "/data/2"}`."""
        call = self._begin("move replicas between log directories", timeout)
        wanted = {Replica(*replica): path for replica, path in directories.items()}

        async def ask(broker: int | None, replicas: list[Replica]) -> Results[Replica, None]:
            assert broker is not None
            request = wire.log_dirs.alter_request({replica: wanted[replica] for replica in replicas})
            return wire.log_dirs.read_altered(await call.ask_node(broker, request), broker)

        return await call.run_each(wanted, call.by_node(_brokers, ask))


async def _themselves(brokers: list[int]) -> Results[int, int | None]:
    return {broker: broker for broker in brokers}


async def _brokers(replicas: list[Replica]) -> Results[Replica, int | None]:
    return {replica: replica.broker for replica in replicas}
