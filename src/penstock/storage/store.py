"""All logs of a node, in the directories of `log.dirs`, and their background tasks.

A partition has one log, in one directory; new logs go to the directory with the fewest. A failed directory takes only
its own logs offline: the node continues while one directory is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from penstock.protocol.types import ZERO_UUID, Uuid
from penstock.runtime import Runtime
from penstock.storage.cleaning.cleaner import LogCleaner
from penstock.storage.directory import NO_BROKER_EPOCH, LogDirectory
from penstock.storage.directory_io import DirectoryIO, OpenFiles
from penstock.storage.errors import (
    DirectoryOffline,
    NoDirectory,
    PartitionExists,
    StorageError,
    UnknownDirectory,
)
from penstock.storage.layout import DELETE_DIRECTORY, PARTITION_METADATA, STRAY_DIRECTORY
from penstock.storage.log import Log
from penstock.storage.moving import Move
from penstock.storage.pages import when_loaded
from penstock.storage.recovery import RecoveryReport
from penstock.storage.settings import NEVER, CleanerSettings, LogSettings, StoreSettings
from penstock.storage.throttle import Throttle

logger = logging.getLogger(__name__)

UNLIMITED_RATE = 2**63 - 1
LOGS_PER_TURN = 32  # retention checks so many logs per turn of the event loop


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDescription:
    """A log, as DescribeLogDirs describes it."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    """How far the log is behind the high watermark, or a future log behind the log."""
    is_future: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryDescription:
    """A log directory, as DescribeLogDirs describes it."""

    path: str
    is_online: bool
    total_bytes: int
    usable_bytes: int
    logs: Sequence[LogDescription]


class LogStore:
    def __init__(
        self,
        paths: Sequence[str],
        *,
        runtime: Runtime,
        settings: StoreSettings,
        topic_settings: Callable[[str], LogSettings],
        node_id: int,
        cluster_id: str,
        reserved: Collection[str] = (),
        move_bytes_per_second: Callable[[], int] = lambda: UNLIMITED_RATE,
        cleaner_settings: Callable[[], CleanerSettings] = CleanerSettings,
    ) -> None:
        """In the directories `reserved` a log is created only by explicit `path`. `move_bytes_per_second` is
        `replica.alter.log.dirs.io.max.bytes.per.second`, for all moves together."""
        open_files = OpenFiles(settings.open_files_max)
        self.directories = [
            LogDirectory(
                DirectoryIO(
                    path,
                    disk=runtime.disk,
                    workers=runtime.workers,
                    clock=runtime.clock,
                    rng=runtime.random,
                    open_files=open_files,
                ),
                settings=settings,
            )
            for path in paths
        ]
        self.on_directory_offline: Callable[[LogDirectory], None] | None = None
        """Called when a directory has failed, after its logs refuse everything."""
        self.on_moved: Callable[[Log], None] | None = None
        """Called when the move of a log to another directory has ended, with success or not."""
        self._clock = runtime.clock
        self._supervisor = runtime.supervisor
        self._workers = runtime.workers
        self._settings = settings
        self._topic_settings = topic_settings
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._reserved = reserved
        self._logs: dict[tuple[str, int], Log] = {}
        self._duplicates: dict[tuple[str, int], list[Log]] = {}
        """Further logs of the same name, until the metadata tells which one is meant (`claim`)."""
        self._preferred: dict[tuple[str, int], str] = {}
        """Directories in which logs that do not exist yet are to be created."""
        self._moves: dict[tuple[str, int], Move] = {}
        self._move_bytes_per_second = move_bytes_per_second
        self._move_throttle: Throttle | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.cleaner = LogCleaner(
            self.directories,
            workers=runtime.workers,
            clock=runtime.clock,
            settings=cleaner_settings,
            is_moving=lambda log: self.move_of(log.topic, log.partition) is not None,
            start_another=self._start_cleaner,
        )
        self.was_clean = False
        """Whether the last shutdown was clean; if not, any log may lack its end."""
        for directory in self.directories:
            directory.io.on_offline.append(partial(self._went_offline, directory))

    async def start(self) -> list[RecoveryReport]:
        """Open every directory and load every log; returns the reports of the logs that had to be scanned.

        A directory that cannot be used is logged and skipped. DirectoryRefused if one belongs to another node,
        NoDirectory if none can be used.
        """
        for directory in self.directories:
            try:
                directory.open(cluster_id=self._cluster_id, node_id=self._node_id)
            except DirectoryOffline:
                continue
            except StorageError:
                self._release()
                raise
        results = await asyncio.gather(
            *[directory.load(self._topic_settings) for directory in self._online()], return_exceptions=True
        )
        reports = []
        for result in results:
            if isinstance(result, BaseException):
                if not isinstance(result, DirectoryOffline):
                    self._release()
                    raise result
            else:
                reports += result
        self._require_directory()
        self.was_clean = not reports and all(directory.was_clean for directory in self._online())
        self._gather_logs()
        self._start_tasks()
        return reports

    def create(
        self, topic: str, partition: int, topic_id: Uuid, settings: LogSettings, *, path: str | None = None
    ) -> Log:
        """A new log, in the directory at `path` or in the one with the fewest logs; PartitionExists if it exists
        already."""
        path = path or self._preferred.pop((topic, partition), None)
        if (topic, partition) in self._logs:
            raise PartitionExists(
                f"{topic}-{partition} already exists in {self._logs[topic, partition].directory}"
            )
        directory = self._choose(path)
        log = self._logs[topic, partition] = directory.create(topic, partition, topic_id, settings)
        return log

    def move(self, topic: str, partition: int, path: str) -> None:
        """Start moving a log to the directory at `path`; a log that does not exist yet will be created there.

        Moving a log to its present directory cancels a running move.
        """
        target = next((directory for directory in self.directories if directory.path == path), None)
        if target is None:
            raise UnknownDirectory(f"{path} is not one of log.dirs")
        if not target.is_online:
            raise target.io.refusal()
        log = self._logs.get((topic, partition))
        if log is None:
            self._preferred[topic, partition] = path
            return
        move = self._moves.get((topic, partition))
        if move is not None and not move.is_done and move.target is target:
            return
        self._cancel_move(topic, partition)
        if log.directory != path:
            move = Move(log, self.directory_of(log), target, self._throttle())
            self._moves[topic, partition] = move
            move.when_done(lambda: self._move_ended(log))

    def move_of(self, topic: str, partition: int) -> Move | None:
        """The running move, if any."""
        move = self._moves.get((topic, partition))
        return move if move is not None and not move.is_done else None

    def get(self, topic: str, partition: int) -> Log | None:
        return self._logs.get((topic, partition))

    def claim(self, topic: str, partition: int, topic_id: Uuid) -> Log | None:
        """The log of the topic with this id. Logs of deleted topics of the same name become stray."""
        found = self._take(topic, partition)
        claimed = next((log for log in found if log.topic_id == topic_id), None)
        if claimed is not None:
            self._logs[topic, partition] = claimed
        for log in found:
            if log is not claimed:
                reason = (
                    f"has no topic id: its {PARTITION_METADATA} is missing or torn, as after a power cut"
                    if log.topic_id == ZERO_UUID
                    else "belongs to a deleted topic of the same name"
                )
                logger.warning("%s in %s %s; marking it as stray", log, log.directory, reason)
                # The failure of an offline directory was logged already, and must not prevent serving the other log.
                with contextlib.suppress(DirectoryOffline):
                    self.directory_of(log).delete(log, kind=STRAY_DIRECTORY)
        return claimed

    def delete(self, topic: str, partition: int) -> None:
        """Delete a log, if it exists; its files are deleted after `file.delete.delay.ms`."""
        self._remove(topic, partition, DELETE_DIRECTORY)

    def mark_stray(self, topic: str, partition: int) -> None:
        """Take a log that the cluster does not know out of service, but keep its files."""
        self._remove(topic, partition, STRAY_DIRECTORY)

    def all(self) -> Iterator[Log]:
        return iter(list(self._logs.values()))

    def directory_of(self, log: Log) -> LogDirectory:
        return next(directory for directory in self.directories if directory.io is log.io)

    def describe(self) -> list[DirectoryDescription]:
        return [self._describe(directory) for directory in self.directories]

    async def enforce_retention(self) -> int:
        """One round of retention over all logs; returns the number of deleted segments."""
        dropped = 0

        async def enforce(log: Log) -> None:
            nonlocal dropped
            now_ms = self._clock.wall_ms()
            if log.is_configured:
                dropped += await when_loaded(
                    lambda: log.enforce_retention(now_ms, high_watermark=log.high_watermark), self._workers
                )

        await self._for_each_log(enforce, "enforcing the retention")
        return dropped

    async def expire_producers(self) -> None:
        """Expire producers that have been idle for `producer.id.expiration.ms`, in all logs."""
        now_ms, expiration_ms = self._clock.wall_ms(), self._settings.producer_id_expiration_ms

        async def expire(log: Log) -> None:
            for _ in log.producers.expire_in_slices(now_ms, expiration_ms=expiration_ms):
                await asyncio.sleep(0)

        await self._for_each_log(expire, "expiring the producer ids")

    async def _for_each_log(self, work: Callable[[Log], Awaitable[None]], doing: str) -> None:
        """Continue after a log that fails; the first unexpected error is raised at the end."""
        failure: Exception | None = None
        for count, log in enumerate(self.all()):
            if count % LOGS_PER_TURN == LOGS_PER_TURN - 1:
                await asyncio.sleep(0)
            try:
                await work(log)
            except StorageError:
                continue  # deleted or offline by now, which is already logged
            except Exception as error:
                error.add_note(f"while {doing} of {log}")
                failure = failure or error
        if failure is not None:
            raise failure

    @property
    def previous_broker_epoch(self) -> int:
        """The broker epoch of the process that stopped cleanly, or -1 if the last shutdown was not clean (KIP-966)."""
        epochs = {directory.previous_broker_epoch for directory in self._online()}
        return epochs.pop() if self.was_clean and len(epochs) == 1 else NO_BROKER_EPOCH

    async def close(self, *, leaves_note: bool = True, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Stop the background tasks, flush everything, and release the directories.

        Without `leaves_note` the next start finds `was_clean` false, for a node that stops before it could act on an
        unclean shutdown.
        """
        for partition in list(self._moves):
            self._cancel_move(*partition)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await asyncio.gather(
            *[
                directory.close(leaves_note=leaves_note, broker_epoch=broker_epoch)
                for directory in self.directories
            ]
        )

    # Internals

    def _online(self) -> list[LogDirectory]:
        return [directory for directory in self.directories if directory.is_online]

    def _open_to_all(self) -> list[LogDirectory]:
        return [directory for directory in self._online() if directory.path not in self._reserved]

    def _require_directory(self) -> None:
        if not self._open_to_all():
            self._release()
            reasons = "; ".join(str(directory.io.offline) for directory in self.directories)
            raise NoDirectory(
                f"no directory of log.dirs can be used: {reasons}; set one that can be written to"
            )

    def _choose(self, path: str | None) -> LogDirectory:
        if path is None:
            online = self._open_to_all()
        else:
            online = [directory for directory in self._online() if directory.path == path]
        if not online:
            raise NoDirectory(f"{path or 'every directory of log.dirs'} is offline or unknown")
        return min(online, key=lambda directory: len(directory.logs))

    def _gather_logs(self) -> None:
        """Handle two logs of one name. If they belong to different topics, one was deleted while its directory was
        offline, or a power cut brought it back. If they belong to the same topic, the node crashed at the end of a
        move, when both directories have it. Only the newer one is complete: the one with the later leader epoch or, in
        the same epoch, the longer one. The other becomes stray."""
        for directory in self.directories:
            for partition, log in list(directory.logs.items()):
                other = self._logs.setdefault(partition, log)
                if other is log:
                    continue
                duplicates = [other, *self._duplicates.get(partition, ())]
                twin = next((known for known in duplicates if known.topic_id == log.topic_id), None)
                if twin is None:
                    self._duplicates.setdefault(partition, []).append(log)
                    continue
                kept, spare = (log, twin) if _recency(log) > _recency(twin) else (twin, log)
                duplicates[duplicates.index(twin)] = kept
                self._logs[partition], *self._duplicates[partition] = duplicates
                message = "%s also exists in %s; marking that as stray and using %s"
                logger.warning(message, spare, spare.folder, kept.folder)
                self.directory_of(spare).delete(spare, kind=STRAY_DIRECTORY)

    def _take(self, topic: str, partition: int) -> list[Log]:
        log = self._logs.pop((topic, partition), None)
        return ([] if log is None else [log]) + self._duplicates.pop((topic, partition), [])

    def _throttle(self) -> Throttle:
        """One for all moves, created with the first: before, there may be no event loop."""
        if self._move_throttle is None:
            self._move_throttle = Throttle(self._move_bytes_per_second, asyncio.get_running_loop().time)
        return self._move_throttle

    def _move_ended(self, log: Log) -> None:
        if self.on_moved is not None:
            self.on_moved(log)

    def _cancel_move(self, topic: str, partition: int) -> None:
        move = self._moves.pop((topic, partition), None)
        if move is not None and not move.is_done:
            move.cancel()

    def _remove(self, topic: str, partition: int, kind: str) -> None:
        self._cancel_move(topic, partition)
        for log in self._take(topic, partition):
            self.directory_of(log).delete(log, kind=kind)

    def _went_offline(self, directory: LogDirectory) -> None:
        if self.on_directory_offline is not None:
            self.on_directory_offline(directory)

    def _release(self) -> None:
        for directory in self.directories:
            directory.release()

    def _start_tasks(self) -> None:
        settings = self._settings

        async def enforce_retention() -> None:
            await self.enforce_retention()

        async def checkpoint_recovery_points() -> None:
            await asyncio.gather(*[directory.checkpoint_recovery_points() for directory in self._online()])

        async def checkpoint_start_offsets() -> None:
            await asyncio.gather(*[directory.checkpoint_start_offsets() for directory in self._online()])

        async def checkpoint_high_watermarks() -> None:
            await asyncio.gather(*[directory.checkpoint_high_watermarks() for directory in self._online()])

        for name, interval_ms, work in (
            ("log retention", settings.retention_check_interval_ms, enforce_retention),
            ("recovery point checkpoint", settings.recovery_point_interval_ms, checkpoint_recovery_points),
            ("log start offset checkpoint", settings.start_offset_interval_ms, checkpoint_start_offsets),
            ("high watermark checkpoint", settings.high_watermark_interval_ms, checkpoint_high_watermarks),
            (
                "producer id expiration",
                settings.producer_id_expiration_check_interval_ms,
                self.expire_producers,
            ),
        ):
            if interval_ms < NEVER:
                self._tasks.append(
                    self._supervisor.repeat(
                        name,
                        work,
                        interval_ms=interval_ms,
                        initial_delay_ms=min(interval_ms, settings.initial_task_delay_ms),
                    )
                )

        if settings.is_cleaner_enabled:
            self._start_cleaner(0)

    def _start_cleaner(self, number: int) -> None:
        clean = partial(self.cleaner.run, number)
        self._tasks.append(self._supervisor.run(f"log cleaner {number}", clean))

    def _describe(self, directory: LogDirectory) -> DirectoryDescription:
        total = usable = -1
        if directory.is_online:
            try:
                total, usable = directory.io.disk.space(directory.path)
            except OSError as error:
                directory.io.fail(error, "asking for its size")
        logs = [
            LogDescription(
                topic=log.topic,
                partition=log.partition,
                size_bytes=log.segments.size_bytes(),
                offset_lag=max(0, log.high_watermark - log.end_offset),
            )
            for log in directory.logs.values()
        ]
        logs += [
            LogDescription(
                topic=copy.topic,
                partition=copy.partition,
                size_bytes=copy.segments.size_bytes(),
                offset_lag=self._moves[partition].offset_lag(),
                is_future=True,
            )
            for partition, copy in directory.futures.items()
        ]
        return DirectoryDescription(
            path=directory.path,
            is_online=directory.is_online,
            total_bytes=total,
            usable_bytes=usable,
            logs=logs,
        )


def _recency(log: Log) -> tuple[int, int]:
    """Larger for the newer of two logs of one replica."""
    return log.epochs.latest, log.end_offset
