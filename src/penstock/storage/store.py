"""All logs of a node, over the directories of `log.dirs`, and the work that goes on in the background.

A partition has one log, in one directory; new ones go where there are fewest. A directory that fails takes
its logs with it and nothing else: the node serves on while one is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from penstock.protocol.types import Uuid
from penstock.runtime import Runtime
from penstock.storage.directory import LogDirectory
from penstock.storage.errors import (
    DirectoryOffline,
    NoDirectory,
    PartitionExists,
    StorageError,
    UnknownDirectory,
)
from penstock.storage.layout import DELETE_DIRECTORY, STRAY_DIRECTORY
from penstock.storage.log import Log
from penstock.storage.moving import Move
from penstock.storage.pages import when_loaded
from penstock.storage.recovery import RecoveryReport
from penstock.storage.settings import NEVER, LogSettings, StoreSettings
from penstock.storage.throttle import Throttle
from penstock.storage.volume import Descriptors, Volume

logger = logging.getLogger(__name__)

UNLIMITED_RATE = 2**63 - 1
LOGS_PER_TURN = 32  # retention looks at so many logs before the event loop gets its turn again


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDescription:
    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    """How far the log is behind the high watermark, or a copy behind the log."""
    is_future: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryDescription:
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
    ) -> None:
        """`reserved` are those of `paths` where a log is created only if it is asked for there.
        `move_bytes_per_second` is `replica.alter.log.dirs.io.max.bytes.per.second`, for all moves together.
        """
        descriptors = Descriptors(settings.open_files_max)
        self.directories = [
            LogDirectory(
                Volume(
                    path,
                    disk=runtime.disk,
                    workers=runtime.workers,
                    clock=runtime.clock,
                    rng=runtime.random,
                    descriptors=descriptors,
                ),
                settings=settings,
            )
            for path in paths
        ]
        self.on_directory_offline: Callable[[LogDirectory], None] | None = None
        """Called when a directory fails, after its logs refuse everything."""
        self._clock = runtime.clock
        self._supervisor = runtime.supervisor
        self._workers = runtime.workers
        self._settings = settings
        self._topic_settings = topic_settings
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._reserved = reserved
        self._logs: dict[tuple[str, int], Log] = {}
        self._rivals: dict[tuple[str, int], list[Log]] = {}
        """Further logs of that name, until the metadata says which one it means (`claim`)."""
        self._preferred: dict[tuple[str, int], str] = {}
        """Where logs that do not exist yet are to be created."""
        self._moves: dict[tuple[str, int], Move] = {}
        self._move_bytes_per_second = move_bytes_per_second
        self._move_throttle: Throttle | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.was_clean = False
        """Whether every log was found as a clean stop had left it; if not, any of them may lack its end."""
        for directory in self.directories:
            directory.volume.on_offline.append(partial(self._went_offline, directory))

    async def start(self) -> list[RecoveryReport]:
        """Open every directory and load every log; returns what was found where the last stop was not clean.

        A directory that can not be used is left out with a message; DirectoryRefused where it is somebody
        else's, NoDirectory where none is left.
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
        """A new log, in the directory at `path` or where there are fewest; PartitionExists if there is one."""
        path = path or self._preferred.pop((topic, partition), None)
        if (topic, partition) in self._logs:
            raise PartitionExists(
                f"{topic}-{partition} is in {self._logs[topic, partition].directory} already"
            )
        directory = self._choose(path)
        log = self._logs[topic, partition] = directory.create(topic, partition, topic_id, settings)
        return log

    def move(self, topic: str, partition: int, path: str) -> None:
        """Begin to move a log to the directory at `path`; one that is not there yet will be created in it.

        Moving it to where it is ends a move that is under way.
        """
        target = next((directory for directory in self.directories if directory.path == path), None)
        if target is None:
            raise UnknownDirectory(f"{path} is not one of log.dirs")
        if not target.is_online:
            raise target.volume.refusal()
        log = self._logs.get((topic, partition))
        if log is None:
            self._preferred[topic, partition] = path
            return
        move = self._moves.get((topic, partition))
        if move is not None and not move.is_done and move.target is target:
            return
        self._cancel_move(topic, partition)
        if log.directory != path:
            self._moves[topic, partition] = Move(log, self.directory_of(log), target, self._throttle())

    def move_of(self, topic: str, partition: int) -> Move | None:
        """The move that is under way, if any."""
        move = self._moves.get((topic, partition))
        return move if move is not None and not move.is_done else None

    def get(self, topic: str, partition: int) -> Log | None:
        return self._logs.get((topic, partition))

    def claim(self, topic: str, partition: int, topic_id: Uuid) -> Log | None:
        """The log of this very topic. Others of that name, of topics that are gone, are set aside."""
        found = self._take(topic, partition)
        claimed = next((log for log in found if log.topic_id == topic_id), None)
        if claimed is not None:
            self._logs[topic, partition] = claimed
        for log in found:
            if log is not claimed:
                logger.warning(
                    "%s in %s is of a deleted topic of that name; setting it aside", log, log.directory
                )
                # An offline directory has said so already, and is no reason not to serve the other log.
                with contextlib.suppress(DirectoryOffline):
                    self.directory_of(log).delete(log, kind=STRAY_DIRECTORY)
        return claimed

    def delete(self, topic: str, partition: int) -> None:
        """Take a log, if there is one, out of service; its files go after `file.delete.delay.ms`."""
        self._remove(topic, partition, DELETE_DIRECTORY)

    def set_aside(self, topic: str, partition: int) -> None:
        """Take a log out of service that the cluster does not know, but keep its files."""
        self._remove(topic, partition, STRAY_DIRECTORY)

    def all(self) -> Iterator[Log]:
        return iter(list(self._logs.values()))

    def directory_of(self, log: Log) -> LogDirectory:
        return next(directory for directory in self.directories if directory.volume is log.volume)

    def describe(self) -> list[DirectoryDescription]:
        return [self._describe(directory) for directory in self.directories]

    async def enforce_retention(self) -> int:
        """One round of retention over all logs; returns the number of segments dropped."""
        dropped = 0

        async def enforce(log: Log) -> None:
            nonlocal dropped
            now_ms = self._clock.wall_ms()
            dropped += await when_loaded(
                lambda: log.enforce_retention(now_ms, high_watermark=log.high_watermark), self._workers
            )

        await self._for_each_log(enforce, "enforcing the retention")
        return dropped

    async def expire_producers(self) -> None:
        """Forget producers that have been idle for `producer.id.expiration.ms`, in all logs."""
        now_ms, expiration_ms = self._clock.wall_ms(), self._settings.producer_id_expiration_ms

        async def expire(log: Log) -> None:
            for _ in log.producers.expire_in_slices(now_ms, expiration_ms=expiration_ms):
                await asyncio.sleep(0)

        await self._for_each_log(expire, "expiring the producer ids")

    async def _for_each_log(self, work: Callable[[Log], Awaitable[None]], doing: str) -> None:
        """A log that fails does not keep the others from their turn; the first such error is raised at the end."""
        failure: Exception | None = None
        for count, log in enumerate(self.all()):
            if count % LOGS_PER_TURN == LOGS_PER_TURN - 1:
                await asyncio.sleep(0)
            try:
                await work(log)
            except StorageError:
                continue  # deleted or offline by now, which was logged when it happened
            except Exception as error:
                error.add_note(f"while {doing} of {log}")
                failure = failure or error
        if failure is not None:
            raise failure

    async def close(self, *, leaves_note: bool = True) -> None:
        """Stop the background work, write everything down, and let go of the directories.

        Without the note that all is well the next start finds `was_clean` false, for those who had no chance to act
        on it.
        """
        for partition in list(self._moves):
            self._cancel_move(*partition)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await asyncio.gather(*[directory.close(leaves_note=leaves_note) for directory in self.directories])

    # Inside

    def _online(self) -> list[LogDirectory]:
        return [directory for directory in self.directories if directory.is_online]

    def _open_to_all(self) -> list[LogDirectory]:
        return [directory for directory in self._online() if directory.path not in self._reserved]

    def _require_directory(self) -> None:
        if not self._open_to_all():
            self._release()
            reasons = "; ".join(str(directory.volume.offline) for directory in self.directories)
            raise NoDirectory(
                f"no directory of log.dirs can be used: {reasons}; name one that can be written to"
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
        """Two logs of one name are no reason to give up. Of different topics, one was deleted while its directory
        was offline, or a power cut brought it back. Of the same topic, a crash came in the last moment of a move,
        when both directories have it: the longer one has everything, and the other is set aside.
        """
        for directory in self.directories:
            for partition, log in list(directory.logs.items()):
                other = self._logs.setdefault(partition, log)
                if other is log:
                    continue
                rivals = [other, *self._rivals.get(partition, ())]
                twin = next((known for known in rivals if known.topic_id == log.topic_id), None)
                if twin is None:
                    self._rivals.setdefault(partition, []).append(log)
                    continue
                kept, spare = (log, twin) if log.end_offset > twin.end_offset else (twin, log)
                rivals[rivals.index(twin)] = kept
                self._logs[partition], *self._rivals[partition] = rivals
                logger.warning("%s is in %s too; setting that aside for %s", spare, spare.folder, kept.folder)
                self.directory_of(spare).delete(spare, kind=STRAY_DIRECTORY)

    def _take(self, topic: str, partition: int) -> list[Log]:
        log = self._logs.pop((topic, partition), None)
        return ([] if log is None else [log]) + self._rivals.pop((topic, partition), [])

    def _throttle(self) -> Throttle:
        """One for all moves, made with the first: before, there may be no event loop to ask for the time."""
        if self._move_throttle is None:
            self._move_throttle = Throttle(self._move_bytes_per_second, asyncio.get_running_loop().time)
        return self._move_throttle

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

    def _describe(self, directory: LogDirectory) -> DirectoryDescription:
        total = usable = -1
        if directory.is_online:
            try:
                total, usable = directory.volume.disk.space(directory.path)
            except OSError as error:
                directory.volume.fail(error, "asking for its size")
        logs = [
            LogDescription(
                topic=log.topic,
                partition=log.partition,
                size_bytes=log.size_bytes(),
                offset_lag=max(0, log.high_watermark - log.end_offset),
            )
            for log in directory.logs.values()
        ]
        logs += [
            LogDescription(
                topic=copy.topic,
                partition=copy.partition,
                size_bytes=copy.size_bytes(),
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
