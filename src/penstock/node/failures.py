"""Handles a failed log directory.

Its partitions already respond with KAFKA_STORAGE_ERROR. This module does the rest: the coordinators of partitions in
the directory resign, and the broker reports the directory to the controller, which elects other leaders for its
partitions. If the last log directory fails, or the one with the metadata log, the node fails, too: `ended` gets the
reason, and the process exits with an error, as in Kafka.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Protocol

from penstock.metadata.errors import CorruptMetadata
from penstock.protocol.types import ZERO_UUID, Uuid
from penstock.quorum.core import CommittedRecordsLost
from penstock.quorum.driver import CorruptMetadataLog, QuorumRefused
from penstock.replication.table import PartitionTable
from penstock.runtime import Supervisor
from penstock.storage.directory import LogDirectory
from penstock.storage.errors import StorageError
from penstock.storage.store import LogStore

logger = logging.getLogger(__name__)

REMEDY = "Free space on the disk or repair it, then start the node again."
METADATA_REMEDY = (
    "If another node of the cluster has a newer version of Penstock or Kafka, start this one with a version that knows "
    "the record. Otherwise report it as a bug, with the output of kafka-dump-log.sh --cluster-metadata-decoder."
)
SELF_EXPLAINING = (QuorumRefused, CorruptMetadataLog, CommittedRecordsLost)  # their messages say what to do


Report = Callable[[tuple[Uuid, ...]], Awaitable[None]]


class NodeFailed(Exception):
    """The node must stop. The message says why, and what to do."""


class Coordinator(Protocol):
    """A coordinator with its state in the partitions of an internal topic."""

    def elected(self, partition: int, leader_epoch: int) -> None: ...
    def resigned(self, partition: int) -> None: ...


class DirectoryFailures:
    def __init__(
        self,
        *,
        logs: LogStore,
        log_dirs: Collection[str],
        metadata_directory: LogDirectory,
        supervisor: Supervisor,
        report_timeout_ms: int,
    ) -> None:
        """`report_timeout_ms` is `log.dir.failure.timeout.ms`."""
        self._logs = logs
        self._log_dirs = log_dirs
        self._metadata_directory = metadata_directory
        self._partitions: PartitionTable | None = None
        self._coordinators: Mapping[str, Coordinator] = {}
        self._report_directories: Report | None = None
        self._supervisor = supervisor
        self._report_timeout_ms = report_timeout_ms
        self._loop = asyncio.get_running_loop()
        self._has_unreported_failure = False
        self._reporting: asyncio.Task[None] | None = None
        self.ended: asyncio.Future[None] = self._loop.create_future()
        """Done with `NodeFailed` if the node fails, or without an error when it stops."""
        logs.on_directory_offline = self._failed

    def opened(self, partitions: PartitionTable, coordinators: Mapping[str, Coordinator]) -> None:
        """The broker has partitions now. `coordinators` are by topic."""
        self._partitions = partitions
        self._coordinators = coordinators

    def registered(self, report: Report) -> None:
        """The broker is registered, without the directories that have already failed. Report later failures to the
        controller with `report`, which gets the ids of all failed directories."""
        self._report_directories = report
        if self._has_unreported_failure:
            self._report()

    def fail(self, reason: Exception) -> None:
        """Stop the node because another part than a log directory failed."""
        failure = NodeFailed(_explain(reason))
        if not isinstance(reason, SELF_EXPLAINING):
            failure.__cause__ = reason
        self._end(failure)

    def refused(self, reason: str) -> None:
        """Stop the node because the controller refuses it."""
        self._end(NodeFailed(reason))

    async def close(self) -> None:
        """The node stops: report nothing more."""
        self._logs.on_directory_offline = None
        if self._reporting is not None:
            self._reporting.cancel()
            await asyncio.gather(self._reporting, return_exceptions=True)
        if not self.ended.done():
            self.ended.set_result(None)

    def _failed(self, directory: LogDirectory) -> None:
        # Later, because a coordinator or the controller may be in the middle of a decision.
        self._loop.call_soon(self._act, directory)

    def _act(self, directory: LogDirectory) -> None:
        if directory is self._metadata_directory:
            self._end(NodeFailed(f"{directory.io.offline}. It holds the metadata log. {REMEDY}"))
        elif not any(each.is_online for each in self._logs.directories if each.path in self._log_dirs):
            self._end(NodeFailed(f"{directory.io.offline}. No log directory is left. {REMEDY}"))
        else:
            self._resign()
            self._has_unreported_failure = True
            if self._report_directories is not None:
                self._report()

    def _resign(self) -> None:
        if self._partitions is None:
            return
        for partition in self._partitions.all():
            coordinator = self._coordinators.get(partition.topic)
            if coordinator is not None and partition.is_offline:
                coordinator.resigned(partition.index)

    def _report(self) -> None:
        if self._reporting is None or self._reporting.done():
            self._reporting = self._supervisor.run("report failed log directories", self._report_all)

    async def _report_all(self) -> None:
        assert self._report_directories is not None
        while self._has_unreported_failure and not self.ended.done():
            self._has_unreported_failure = False
            failed = tuple(
                directory.directory_id
                for directory in self._logs.directories
                if not directory.is_online
                and directory.path in self._log_dirs
                and directory.directory_id != ZERO_UUID
            )
            try:
                async with asyncio.timeout(self._report_timeout_ms / 1000):
                    await self._report_directories(failed)
            except TimeoutError:
                self._end(
                    NodeFailed(
                        f"A failed log directory could not be reported to the controller within "
                        f"log.dir.failure.timeout.ms={self._report_timeout_ms}. {REMEDY}"
                    )
                )
            except Exception:
                self._has_unreported_failure = True  # the supervisor retries
                raise

    def _end(self, reason: NodeFailed) -> None:
        if not self.ended.done():
            self.ended.set_exception(reason)
            self.ended.exception()  # mark it as retrieved: a test may not read it


def _explain(reason: Exception) -> str:
    """What happened, and what to do."""
    is_of_network = isinstance(reason, (ConnectionError, TimeoutError))
    if isinstance(reason, SELF_EXPLAINING):
        return str(reason)
    text = str(reason).removesuffix(".")
    if isinstance(reason, StorageError):
        return f"{text}. {REMEDY}"
    if isinstance(reason, OSError) and not is_of_network:
        return f"The metadata of the quorum cannot be read or written: {text}. {REMEDY}"
    if isinstance(reason, CorruptMetadata):
        return f"The metadata log has a record that this node cannot apply: {text}. {METADATA_REMEDY}"
    name = type(reason).__name__
    return f"{f'{name}: {text}' if text else name}. This is a bug; please report it."
