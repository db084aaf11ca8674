"""One entry of `log.dirs`: its lock, its identity, its checkpoints, and the logs in it.

Life: `open` (lock it, see whose it is, see whether the last stop was clean), `load` (every partition, in
workers), service, `close` (all written down, and a note that says so). An OSError at any point takes the
directory offline and touches no other one.

Checkpoints are written whole and in a worker; what they say is behind the truth, never ahead of it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
from collections.abc import Callable, Sequence

from penstock.protocol.types import ZERO_UUID, Uuid, random_uuid
from penstock.runtime.disk import DirectoryLock
from penstock.storage.checkpoints import OffsetCheckpoint, Partition
from penstock.storage.errors import CorruptFile, DirectoryOffline, DirectoryRefused
from penstock.storage.files import save
from penstock.storage.identity import (
    DirectoryIdentity,
    check_identity,
    encode_topic_id,
    read_identity,
    write_identity,
)
from penstock.storage.layout import (
    CLEAN_SHUTDOWN,
    DELETE_DIRECTORY,
    FUTURE_DIRECTORY,
    HIGH_WATERMARKS,
    LOCK,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    START_OFFSETS,
    marked_folder,
    parse_partition_folder,
    partition_folder,
)
from penstock.storage.loading import LoadedLog, load_log, new_log
from penstock.storage.log import Log
from penstock.storage.recovery import RecoveryReport
from penstock.storage.settings import NEVER, LogSettings, StoreSettings
from penstock.storage.trash import Trash, remove_folder
from penstock.storage.volume import Volume

logger = logging.getLogger(__name__)

CLEAN_SHUTDOWN_NOTE = b'{"version":0,"brokerEpoch":-1}'  # Kafka's own words (KIP-966)


class LogDirectory:
    def __init__(self, volume: Volume, *, settings: StoreSettings) -> None:
        self.volume = volume
        self.path = volume.path
        self.directory_id = ZERO_UUID
        self.logs: dict[Partition, Log] = {}
        self.futures: dict[Partition, Log] = {}
        """Copies of logs of other directories that are on their way here."""
        self._settings = settings
        self._trash = Trash(volume)
        self._lock: DirectoryLock | None = None
        self.was_clean = False
        """Whether the last stop left the note that nothing has to be scanned."""
        self._recovery_points = OffsetCheckpoint(volume.disk, self._file(RECOVERY_POINTS))
        self._start_offsets = OffsetCheckpoint(volume.disk, self._file(START_OFFSETS))
        self._high_watermarks = OffsetCheckpoint(volume.disk, self._file(HIGH_WATERMARKS))
        volume.on_offline.append(self._go_offline)
        volume.checkpoint_writes = self._checkpoint_writes

    @property
    def is_online(self) -> bool:
        return self.volume.offline is None

    # Start

    def open(self, *, cluster_id: str, node_id: int) -> None:
        """Take the directory for this process; DirectoryRefused if it is not ours, DirectoryOffline if it fails."""
        disk = self.volume.disk
        try:
            if not disk.exists(self.path):
                disk.make_directory(self.path)
                disk.sync_directory(os.path.dirname(self.path) or "/")
            self._lock = disk.lock(self._file(LOCK))
            identity = read_identity(disk, self.path)
            if identity is None:
                identity = DirectoryIdentity(cluster_id, node_id, random_uuid(self.volume.random))
                write_identity(disk, self.path, identity)
            check_identity(self.path, identity, cluster_id=cluster_id, node_id=node_id)
            self.directory_id = identity.directory_id
            self.was_clean = disk.exists(self._file(CLEAN_SHUTDOWN))
            if self.was_clean:
                # From here on a crash is a crash, also one in the middle of loading.
                disk.remove(self._file(CLEAN_SHUTDOWN))
                disk.sync_directory(self.path)
        except BlockingIOError as error:
            raise DirectoryRefused(
                f"{self.path} is in use by another process; stop that one, or name another directory in log.dirs"
            ) from error
        except (OSError, CorruptFile) as error:
            raise self.volume.fail(error, "opening it") from error

    async def load(self, topic_settings: Callable[[str], LogSettings]) -> list[RecoveryReport]:
        """Bring every partition into service; returns what was found in those that had to be scanned."""
        workers = self.volume.workers
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            partitions = await workers.run(self._prepare_load)
            is_recovery = bool(partitions) and not self.was_clean
            if is_recovery:
                logger.warning(
                    "recovering %d logs in %s: the last shutdown was not clean", len(partitions), self.path
                )
            queue = iter([(partition, topic_settings(partition[0])) for partition in partitions])
            found: dict[Partition, tuple[LoadedLog, LogSettings]] = {}

            def load_share() -> None:
                for partition, settings in queue:
                    found[partition] = self._load(partition, settings), settings

            shares = range(self._settings.recovery_threads_per_directory)
            await asyncio.gather(*[workers.run(load_share) for _ in shares])
        except (OSError, CorruptFile) as error:
            raise self.volume.fail(error, "loading its partitions") from error
        for partition in partitions:
            self._take_into_service(partition, *found[partition])
        reports = [loaded.report for loaded, _ in found.values() if loaded.report.scanned_segments]
        if reports:
            # The checkpoint may vouch for indexes that were just built anew and are not safe yet.
            await self.checkpoint_recovery_points()
        took_ms = round((loop.time() - began) * 1000)
        if is_recovery or reports:
            self._log_recovery(len(partitions), reports, took_ms)
        else:
            logger.info("loaded %d logs in %s in %d ms", len(partitions), self.path, took_ms)
        return reports

    def _log_recovery(self, log_count: int, reports: Sequence[RecoveryReport], took_ms: int) -> None:
        cut = [report for report in reports if report.is_cut]
        logger.info(
            "recovered %d logs in %s in %d ms: %d segments (%d bytes) of %d logs scanned, %d logs truncated"
            " by %d bytes",
            log_count,
            self.path,
            took_ms,
            sum(report.scanned_segments for report in reports),
            sum(report.scanned_bytes for report in reports),
            len(reports),
            len(cut),
            sum(report.cut_bytes for report in cut),
        )

    def _prepare_load(self) -> list[Partition]:
        """Blocking: read the checkpoints, remove what was deleted, and list the partitions that are there."""
        disk = self.volume.disk
        for checkpoint in (self._recovery_points, self._start_offsets, self._high_watermarks):
            checkpoint.read()
        partitions = []
        for name in disk.list(self.path):
            folder = parse_partition_folder(name)
            if folder is None or not disk.is_directory(self._file(name)):
                continue
            if folder.kind in (DELETE_DIRECTORY, FUTURE_DIRECTORY):
                remove_folder(disk, self._file(name))
            elif folder.kind == "":
                partitions.append((folder.topic, folder.partition))
        return sorted(partitions)

    def _load(self, partition: Partition, settings: LogSettings) -> LoadedLog:
        return load_log(
            self.volume,
            self._file(partition_folder(*partition)),
            settings,
            is_clean=self.was_clean,
            recovery_point=self._recovery_points.offsets.get(partition, 0),
            start_offset=self._start_offsets.offsets.get(partition, 0),
            high_watermark=self._high_watermarks.offsets.get(partition, 0),
        )

    def _take_into_service(self, partition: Partition, loaded: LoadedLog, settings: LogSettings) -> None:
        log = self._make_log(partition, loaded.topic_id or ZERO_UUID, loaded, settings)
        known = self._high_watermarks.offsets.get(partition, 0)
        log.high_watermark = max(loaded.start_offset, min(known, loaded.end_offset))
        log.producers.expire(
            self.volume.clock.wall_ms(), expiration_ms=self._settings.producer_id_expiration_ms
        )
        report = loaded.report
        if report.scanned_segments:
            log.recovered()
        if report.is_cut:
            logger.warning(
                "%s was cut at offset %d: %d bytes and %d whole segments are gone (%s)",
                log, report.end_offset, report.cut_bytes, report.dropped_segments, report.reason,
            )  # fmt: skip

    # Service

    def create(self, topic: str, partition: int, topic_id: Uuid, settings: LogSettings) -> Log:
        """A new, empty log. Nothing of it is synced yet: that comes with its first flush."""
        disk = self.volume.disk
        try:
            self._forget_former(topic, partition)
            folder = self._file(partition_folder(topic, partition))
            disk.make_directory(folder)
            loaded = new_log(self.volume, folder)
            if settings.preallocate:
                loaded.segments[0].file().reserve(settings.segment_bytes)
            save(disk, os.path.join(folder, PARTITION_METADATA), encode_topic_id(topic_id))
            loaded.unsynced_names.append(PARTITION_METADATA)
        except OSError as error:
            raise self.volume.fail(error, f"creating {topic}-{partition}") from error
        return self._make_log((topic, partition), topic_id, loaded, settings)

    def delete(self, log: Log, *, kind: str = DELETE_DIRECTORY) -> None:
        """Take a log out of service at once, and remove its files later; a stray one is only put aside.

        In a directory that is offline the files stay as they are, and the next start finds a stray log.
        """
        del self.logs[log.topic, log.partition]
        log.retire()
        if not self.is_online:
            return
        self._remove_folder(log, log.folder, kind)

    def _remove_folder(self, log: Log, folder: str, kind: str) -> None:
        aside = self._file(self._mark(log, kind))
        try:
            self.volume.disk.rename(folder, aside)
        except OSError as error:
            raise self.volume.fail(error, f"deleting {log}") from error
        if kind == DELETE_DIRECTORY:
            self._trash.remove_folder_later(aside, log.settings.file_delete_delay_ms)

    def _mark(self, log: Log, kind: str) -> str:
        unique = f"{self.volume.random.getrandbits(128):032x}"
        return marked_folder(log.topic, log.partition, unique=unique, kind=kind)

    def create_future(self, log: Log, *, start_offset: int) -> Log:
        """An empty copy of a log of another directory, that grows until `adopt`."""
        disk = self.volume.disk
        folder = self._file(self._mark(log, FUTURE_DIRECTORY))
        try:
            disk.make_directory(folder)
            loaded = new_log(self.volume, folder, start_offset=start_offset)
            save(disk, os.path.join(folder, PARTITION_METADATA), encode_topic_id(log.topic_id))
            loaded.unsynced_names.append(PARTITION_METADATA)
        except OSError as error:
            raise self.volume.fail(error, f"creating a copy of {log}") from error
        # Nobody waits for single appends to a copy: it is flushed as a whole.
        settings = dataclasses.replace(log.settings, flush_messages=NEVER, flush_ms=NEVER)
        copy = Log(
            self.volume,
            self._trash,
            topic=log.topic,
            partition=log.partition,
            topic_id=log.topic_id,
            settings=settings,
            loaded=loaded,
        )
        self.futures[log.topic, log.partition] = copy
        return copy

    def drop_future(self, copy: Log) -> None:
        """Remove a copy that is not wanted any more."""
        del self.futures[copy.topic, copy.partition]
        copy.retire()
        if self.is_online:
            self._trash.remove_folder_later(copy.folder, 0)

    def adopt(self, log: Log, copy: Log) -> None:
        """Take a log of another directory into service, in the files of the copy that grew here.

        Where it starts is noted first: the copy begins with a whole batch, of which records may have been
        deleted, and what the other directory says of it is not read any more.
        """
        partition = (log.topic, log.partition)
        folder = self._file(partition_folder(*partition))
        try:
            self._forget_former(*partition)
            write = self._start_offsets.prepare(
                {**self._present_start_offsets(), partition: log.start_offset}
            )
            if write is not None:
                write()
            self.volume.disk.rename(copy.folder, folder)
            self.volume.disk.sync_directory(self.path)
        except OSError as error:
            raise self.volume.fail(error, f"moving {log} here") from error
        del self.futures[partition]
        log.continue_in(copy, folder)
        self.logs[partition] = log

    def moved_away(self, log: Log, folder: str) -> None:
        """Another directory has adopted `log`: forget it, and delete the folder that it had here."""
        del self.logs[log.topic, log.partition]
        self._remove_folder(log, folder, DELETE_DIRECTORY)

    def _make_log(
        self, partition: Partition, topic_id: Uuid, loaded: LoadedLog, settings: LogSettings
    ) -> Log:
        log = self.logs[partition] = Log(
            self.volume,
            self._trash,
            topic=partition[0],
            partition=partition[1],
            topic_id=topic_id,
            settings=settings,
            loaded=loaded,
        )
        return log

    def _forget_former(self, topic: str, partition: int) -> None:
        """What checkpoints say of a deleted log must not be taken for a new one of its name after a crash."""
        checkpoints = (self._recovery_points, self._start_offsets, self._high_watermarks)
        for checkpoint in checkpoints:
            if (topic, partition) in checkpoint.offsets:
                offsets = {known: at for known, at in checkpoint.offsets.items() if known in self.logs}
                write = checkpoint.prepare(offsets)
                if write is not None:
                    write()

    # Checkpoints

    async def checkpoint_recovery_points(self) -> None:
        await self._write(self._recovery_points, self._present_recovery_points())

    async def checkpoint_start_offsets(self) -> None:
        await self._write(self._start_offsets, self._present_start_offsets())

    async def checkpoint_high_watermarks(self) -> None:
        offsets = {partition: log.high_watermark for partition, log in self.logs.items()}
        await self._write(self._high_watermarks, offsets)

    def _present_recovery_points(self) -> dict[Partition, int]:
        return {partition: log.scan_offset for partition, log in self.logs.items()}

    def _present_start_offsets(self) -> dict[Partition, int]:
        """Of every log that does not start at 0. Not only of those that start inside a segment: a power cut may
        bring back segments that were dropped, and with them records that were deleted.
        """
        return {partition: log.start_offset for partition, log in self.logs.items() if log.start_offset > 0}

    def _checkpoint_writes(self) -> list[Callable[[], None]]:
        """A log was truncated, and must not be written to before these have run."""
        prepared = (
            self._recovery_points.prepare(self._present_recovery_points()),
            self._start_offsets.prepare(self._present_start_offsets()),
        )
        return [write for write in prepared if write is not None]

    async def _write(self, checkpoint: OffsetCheckpoint, offsets: dict[Partition, int]) -> None:
        write = checkpoint.prepare(offsets) if self.is_online else None
        if write is not None:
            try:
                await self.volume.workers.run(write)
            except OSError as error:
                self.volume.fail(error, f"writing {checkpoint.path}")

    # End

    async def close(self, *, leaves_note: bool = True) -> None:
        """Write everything down and leave the note that nothing has to be scanned, unless it is to be scanned."""
        self._trash.close()
        try:
            await asyncio.gather(*[log.close() for log in self.logs.values()])
            await self.checkpoint_recovery_points()
            await self.checkpoint_start_offsets()
            await self.checkpoint_high_watermarks()
            if self.is_online and leaves_note:
                note = self._file(CLEAN_SHUTDOWN)
                await self.volume.workers.run(lambda: self.volume.disk.write_file(note, CLEAN_SHUTDOWN_NOTE))
        except DirectoryOffline:
            pass  # said already; the next start scans
        except OSError as error:
            self.volume.fail(error, "closing it")
        self.release()

    def release(self) -> None:
        """Let others have the directory."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _go_offline(self) -> None:
        self._trash.close()
        for log in [*self.logs.values(), *self.futures.values()]:
            log.go_offline()

    def _file(self, name: str) -> str:
        return os.path.join(self.path, name)
