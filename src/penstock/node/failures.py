"""Handles a failed log directory.

Its partitions answer KAFKA_STORAGE_ERROR by themselves. This module does the rest: the coordinators of partitions in
the directory resign, and the controller writes down that the broker has lost the directory and that its partitions have
no leader here. A node that has lost its last log directory, or the one with the metadata log, cannot go on: `ended`
carries the reason to the process, which stops with an error, as Kafka's does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import Protocol

from penstock.controller import Controller
from penstock.metadata.errors import Refused
from penstock.replication.table import PartitionTable
from penstock.runtime import Supervisor
from penstock.storage.directory import LogDirectory
from penstock.storage.errors import StorageError
from penstock.storage.store import LogStore

logger = logging.getLogger(__name__)

REMEDY = "Free space on the disk or repair it, then start the node again."


class NodeFailed(Exception):
    """The node cannot go on; the message says why, and what to do."""


class Coordinator(Protocol):
    """Keeps its state in the partitions of an internal topic."""

    def elected(self, partition: int, leader_epoch: int) -> None: ...
    def resigned(self, partition: int) -> None: ...


class DirectoryFailures:
    def __init__(
        self,
        *,
        node_id: int,
        logs: LogStore,
        log_dirs: Collection[str],
        metadata_directory: LogDirectory,
        partitions: PartitionTable,
        controller: Controller,
        coordinators: Mapping[str, Coordinator],
        supervisor: Supervisor,
        report_timeout_ms: int,
    ) -> None:
        """`coordinators` are given by topic, `report_timeout_ms` is `log.dir.failure.timeout.ms`."""
        self._node_id = node_id
        self._logs = logs
        self._log_dirs = log_dirs
        self._metadata_directory = metadata_directory
        self._partitions = partitions
        self._controller = controller
        self._coordinators = coordinators
        self._supervisor = supervisor
        self._report_timeout_ms = report_timeout_ms
        self._loop = asyncio.get_running_loop()
        self._is_registered = False
        self._has_unreported_failure = False
        self._reporting: asyncio.Task[None] | None = None
        self.ended: asyncio.Future[None] = self._loop.create_future()
        """Done when the node cannot go on, with `NodeFailed`, or when it stops."""
        logs.on_directory_offline = self._failed

    def registered(self) -> None:
        """The broker is registered, without directories that had failed by then. From now on failures are reported to
        the controller."""
        self._is_registered = True
        if self._has_unreported_failure:
            self._report()

    def fail(self, reason: Exception) -> None:
        """End the node because something other than a log directory failed."""
        if isinstance(reason, StorageError):
            failure = NodeFailed(f"{reason}. {REMEDY}")
        else:
            failure = NodeFailed(f"{type(reason).__name__}: {reason}. This is a bug; please report it.")
        failure.__cause__ = reason
        self._end(failure)

    async def close(self) -> None:
        """The node stops: nothing more is reported."""
        self._logs.on_directory_offline = None
        if self._reporting is not None:
            self._reporting.cancel()
            await asyncio.gather(self._reporting, return_exceptions=True)
        if not self.ended.done():
            self.ended.set_result(None)

    def _failed(self, directory: LogDirectory) -> None:
        # Later, because the directory may have failed in the middle of a decision of a coordinator or the controller.
        self._loop.call_soon(self._act, directory)

    def _act(self, directory: LogDirectory) -> None:
        if directory is self._metadata_directory:
            self._end(NodeFailed(f"{directory.volume.offline}. It holds the metadata log. {REMEDY}"))
        elif not any(each.is_online for each in self._logs.directories if each.path in self._log_dirs):
            self._end(NodeFailed(f"{directory.volume.offline}. No log directory is left. {REMEDY}"))
        else:
            self._resign()
            self._has_unreported_failure = True
            if self._is_registered:
                self._report()

    def _resign(self) -> None:
        for partition in self._partitions.all():
            coordinator = self._coordinators.get(partition.topic)
            if coordinator is not None and partition.is_offline:
                coordinator.resigned(partition.index)

    def _report(self) -> None:
        if self._reporting is None or self._reporting.done():
            self._reporting = self._supervisor.run("report failed log directories", self._report_all)

    async def _report_all(self) -> None:
        while self._has_unreported_failure and not self.ended.done():
            self._has_unreported_failure = False
            online = [
                directory.directory_id
                for directory in self._logs.directories
                if directory.is_online and directory.path in self._log_dirs
            ]
            try:
                await self._controller.directories_failed(
                    self._node_id,
                    online=online,
                    offline=self._partitions.offline(),
                    timeout_ms=self._report_timeout_ms,
                )
            except Refused as refusal:
                self._end(
                    NodeFailed(
                        f"A failed log directory could not be reported to the controller within "
                        f"log.dir.failure.timeout.ms={self._report_timeout_ms}: {refusal}. {REMEDY}"
                    )
                )
            except Exception:
                self._has_unreported_failure = True  # the supervisor tries again
                raise

    def _end(self, reason: NodeFailed) -> None:
        if not self.ended.done():
            self.ended.set_exception(reason)
            self.ended.exception()  # the process that runs the node reads it; a test may not
