"""Reports to the controller in which log directory each replica is (AssignReplicasToDirs, KIP-858).

A broker with several log directories chooses one for a new replica. The controller must know it: when the directory
fails, the broker names only the directory, and the controller elects other leaders for the replicas in it. A replica
that moved to another directory is reported again. One whose directory failed before its report is reported as lost:
the controller does not know that it was in there, and would keep it as leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from itertools import islice

from penstock.broker.lifecycle import ControllerRequests
from penstock.metadata.cache import MetadataCache
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.directories import LOST, is_online
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectory,
    AssignReplicasToDirsRequestPartition,
    AssignReplicasToDirsRequestTopic,
    AssignReplicasToDirsResponse,
)
from penstock.protocol.types import Uuid
from penstock.replication.table import PartitionTable
from penstock.runtime import Supervisor
from penstock.runtime.backoff import Backoff
from penstock.storage.log import Log
from penstock.storage.store import LogStore

logger = logging.getLogger(__name__)

PER_REQUEST_MAX = 2250  # Kafka's limit: a request of this size fits into 64 KiB
TIMEOUT_MS = 30_000
RETRY_FIRST_MS, RETRY_MAX_MS = 100, 10_000

Replica = tuple[Uuid, int]
"""Topic id and partition."""


class DirectoryAssignments:
    def __init__(
        self,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        partitions: PartitionTable,
        logs: LogStore,
        metadata: MetadataCache,
        controller: ControllerRequests,
        supervisor: Supervisor,
        draw: Callable[[], float],
    ) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._partitions = partitions
        self._logs = logs
        self._metadata = metadata
        self._controller = controller
        self._supervisor = supervisor
        self._backoff = Backoff(RETRY_FIRST_MS, RETRY_MAX_MS, draw=draw)
        self._unreported: dict[Replica, None] = {}
        """In the order of their changes."""
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._logs.on_moved = self._moved
        self._task = self._supervisor.run("report log directories of replicas", self._run)

    async def close(self) -> None:
        if self._task is not None:
            self._logs.on_moved = None
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def apply(self, delta: MetadataDelta) -> None:
        """After `PartitionTable.apply`."""
        for topic_id, change in delta.topics.items():
            for index in change.changed_partitions:
                self._check((topic_id, index))

    def _moved(self, log: Log) -> None:
        self._check((log.topic_id, log.partition))

    def _check(self, replica: Replica) -> None:
        if self._to_report(replica) is not None:
            self._unreported[replica] = None
            self._changed.set()

    def _to_report(self, replica: Replica) -> Uuid | None:
        """The directory of a local replica, if the metadata has another one. LOST if it is offline, and the metadata
        has a directory that is not."""
        topic_id, index = replica
        topic = self._metadata.image.topics.with_id(topic_id)
        if topic is None or index >= len(topic.partitions):
            return None
        state = topic.partitions[index]
        if self._node_id not in state.replicas:
            return None
        known = state.directories[state.replicas.index(self._node_id)]
        if self._partitions.is_offline(topic, index):
            online = [each.directory_id for each in self._logs.directories if each.is_online]
            return LOST if is_online(known, online) else None
        partition = self._partitions.get_by_id(topic_id, index)
        if partition is None:
            return None
        actual = self._logs.directory_of(partition.log).directory_id
        return None if known == actual else actual

    async def _run(self) -> None:
        failures = 0
        while True:
            if not self._unreported:
                self._changed.clear()
                await self._changed.wait()
            replicas = list(islice(self._unreported, PER_REQUEST_MAX))
            error = await self._report(replicas)
            if error is None:
                failures = 0
                continue
            failures += 1
            if failures == 1:
                logger.warning("reporting log directories of replicas failed with %s; retrying", error.name)
            await asyncio.sleep(self._backoff.wait_ms(failures) / 1000)

    async def _report(self, replicas: Iterable[Replica]) -> ErrorCode | None:
        by_directory: dict[Uuid, dict[Uuid, list[int]]] = {}
        for replica in replicas:
            directory = self._to_report(replica)
            if directory is not None:
                by_directory.setdefault(directory, {}).setdefault(replica[0], []).append(replica[1])
        if by_directory:
            request = _build_request(by_directory, node_id=self._node_id, broker_epoch=self._broker_epoch())
            try:
                response: AssignReplicasToDirsResponse = await self._controller.ask(
                    request, timeout_ms=TIMEOUT_MS
                )
            except Refused as refused:
                return refused.error
            if response.error_code is not ErrorCode.NONE:
                return response.error_code
        # A replica that the controller refused is reported again when the metadata shows it to this broker.
        for replica in replicas:
            self._unreported.pop(replica, None)
        return None


def _build_request(
    by_directory: dict[Uuid, dict[Uuid, list[int]]], *, node_id: int, broker_epoch: int
) -> AssignReplicasToDirsRequest:
    return AssignReplicasToDirsRequest(
        broker_id=node_id,
        broker_epoch=broker_epoch,
        directories=[
            AssignReplicasToDirsRequestDirectory(
                id=directory,
                topics=[
                    AssignReplicasToDirsRequestTopic(
                        topic_id=topic_id,
                        partitions=[
                            AssignReplicasToDirsRequestPartition(partition_index=index) for index in indexes
                        ],
                    )
                    for topic_id, indexes in topics.items()
                ],
            )
            for directory, topics in by_directory.items()
        ],
    )
