"""One entry of `log.dirs`: its lock, its `meta.properties`, its checkpoints, and the logs in it.

Life cycle: `open` (lock it, check its owner, see whether the last shutdown was clean), `load` (every partition, in
workers), service, `close` (flush everything and write the clean shutdown file). An OSError at any point takes this
directory offline and no other one.

Checkpoints are written whole and in a worker. They may be behind the logs, never ahead of them.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import os
from collections.abc import Callable, Sequence

from penstock.protocol.types import ZERO_UUID, Uuid, random_uuid
from penstock.runtime.disk import DirectoryLock
from penstock.storage.checkpoints import OffsetCheckpoint, Partition
from penstock.storage.deletion import DelayedDeletion, remove_folder
from penstock.storage.directory_io import DirectoryIO
from penstock.storage.errors import CorruptFile, DirectoryOffline, DirectoryRefused
from penstock.storage.files import save
from penstock.storage.layout import (
    CLEAN_SHUTDOWN,
    CLEANED_OFFSETS,
    DELETE_DIRECTORY,
    FUTURE_DIRECTORY,
    HIGH_WATERMARKS,
    LOCK,
    LOG_SUFFIX,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    START_OFFSETS,
    marked_folder,
    parse_partition_folder,
    partition_folder,
)
from penstock.storage.loading import LoadedLog, load_log, new_log
from penstock.storage.log import Log
from penstock.storage.meta_properties import (
    MetaProperties,
    check_meta_properties,
    encode_topic_id,
    read_meta_properties,
    write_meta_properties,
)
from penstock.storage.recovery import RecoveryReport
from penstock.storage.settings import NEVER, LogSettings, StoreSettings

logger = logging.getLogger(__name__)

NO_BROKER_EPOCH = -1


class LogDirectory:
    def __init__(self, io: DirectoryIO, *, settings: StoreSettings) -> None:
        self.io = io
        self.path = io.path
        self.directory_id = ZERO_UUID
        self.logs: dict[Partition, Log] = {}
        self.futures: dict[Partition, Log] = {}
        """Future logs: copies of logs that are being moved here from other directories."""
        self._settings = settings
        self._deletion = DelayedDeletion(io)
        self._lock: DirectoryLock | None = None
        self.was_clean = False
        self.previous_broker_epoch = NO_BROKER_EPOCH
        """The broker epoch of the process that stopped cleanly (KIP-966)."""
        """Whether the last shutdown was clean, so that nothing has to be scanned."""
        self._recovery_points = OffsetCheckpoint(io.disk, self._file(RECOVERY_POINTS))
        self._start_offsets = OffsetCheckpoint(io.disk, self._file(START_OFFSETS))
        self._high_watermarks = OffsetCheckpoint(io.disk, self._file(HIGH_WATERMARKS))
        self._cleaned_offsets = OffsetCheckpoint(io.disk, self._file(CLEANED_OFFSETS))
        io.on_offline.append(self._go_offline)
        io.checkpoint_writes = self._checkpoint_writes

    @property
    def is_online(self) -> bool:
        return self.io.offline is None

    # Start

    def open(self, *, cluster_id: str, node_id: int) -> None:
        """Lock the directory; DirectoryRefused if it belongs to another node or process, DirectoryOffline if it
        fails."""
        disk = self.io.disk
        try:
            if not disk.exists(self.path):
                disk.make_directory(self.path)
                disk.sync_directory(os.path.dirname(self.path) or "/")
            self._lock = disk.lock(self._file(LOCK))
            identity = read_meta_properties(disk, self.path)
            if identity is None:
                identity = MetaProperties(cluster_id, node_id, random_uuid(self.io.random))
                write_meta_properties(disk, self.path, identity)
            check_meta_properties(self.path, identity, cluster_id=cluster_id, node_id=node_id)
            self.directory_id = identity.directory_id
            self.was_clean = disk.exists(self._file(CLEAN_SHUTDOWN))
            if self.was_clean:
                self.previous_broker_epoch = _read_broker_epoch(disk.read_file(self._file(CLEAN_SHUTDOWN)))
                # A crash from here on, also while loading, is not a clean shutdown.
                disk.remove(self._file(CLEAN_SHUTDOWN))
                disk.sync_directory(self.path)
        except BlockingIOError as error:
            raise DirectoryRefused(
                f"{self.path} is in use by another process; stop that process, or set another directory in log.dirs"
            ) from error
        except (OSError, CorruptFile) as error:
            raise self.io.fail(error, "opening it") from error

    async def load(self, topic_settings: Callable[[str], LogSettings]) -> list[RecoveryReport]:
        """Load every partition; returns the reports of those that had to be scanned."""
        workers = self.io.workers
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            partitions = await workers.run(self._prepare_load)
            is_recovery = (
                bool(partitions)
                and not self.was_clean
                and not await workers.run(lambda: self._is_only_formatted(partitions))
            )
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
            raise self.io.fail(error, "loading its partitions") from error
        for partition in partitions:
            self._add_loaded(partition, *found[partition])
        reports = [loaded.report for loaded, _ in found.values() if loaded.report.scanned_segments]
        if reports:
            # The old checkpoint may cover indexes that were just rebuilt and are not synced yet.
            await self.checkpoint_recovery_points()
        await self._write(self._cleaned_offsets, self._present_cleaned_offsets())
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
        """Blocking: read the checkpoints, remove deleted and future folders, and list the partitions."""
        disk = self.io.disk
        for checkpoint in self._checkpoints():
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

    def _is_only_formatted(self, partitions: Sequence[Partition]) -> bool:
        """Blocking: whether this is the first start after a format, which creates only the folder of the metadata
        log."""
        folders = [self._file(partition_folder(*partition)) for partition in partitions]
        return len(folders) == 1 and not any(
            name.endswith(LOG_SUFFIX) for name in self.io.disk.list(folders[0])
        )

    def _load(self, partition: Partition, settings: LogSettings) -> LoadedLog:
        return load_log(
            self.io,
            self._file(partition_folder(*partition)),
            settings,
            is_clean=self.was_clean,
            recovery_point=self._recovery_points.offsets.get(partition, 0),
            start_offset=self._start_offsets.offsets.get(partition, 0),
            high_watermark=self._high_watermarks.offsets.get(partition, 0),
            cleaned_offset=self._cleaned_offsets.offsets.get(partition, 0),
        )

    def _add_loaded(self, partition: Partition, loaded: LoadedLog, settings: LogSettings) -> None:
        log = self._make_log(partition, loaded.topic_id or ZERO_UUID, loaded, settings)
        known = self._high_watermarks.offsets.get(partition, 0)
        log.high_watermark = max(loaded.start_offset, min(known, loaded.end_offset))
        log.producers.expire(self.io.clock.wall_ms(), expiration_ms=self._settings.producer_id_expiration_ms)
        report = loaded.report
        if report.scanned_segments:
            log.durability.recovered()
        if report.is_cut:
            logger.warning(
                "%s was truncated to offset %d: removed %d bytes and %d whole segments (%s)",
                log, report.end_offset, report.cut_bytes, report.dropped_segments, report.reason,
            )  # fmt: skip

    # Service

    def create(self, topic: str, partition: int, topic_id: Uuid, settings: LogSettings) -> Log:
        """A new, empty log. Its first flush syncs it."""
        disk = self.io.disk
        try:
            self._clear_checkpoints(topic, partition)
            folder = self._file(partition_folder(topic, partition))
            disk.make_directory(folder)
            loaded = new_log(self.io, folder)
            if settings.preallocate:
                loaded.segments[0].file().reserve(settings.segment_bytes)
            save(disk, os.path.join(folder, PARTITION_METADATA), encode_topic_id(topic_id))
            loaded.unsynced_names.append(PARTITION_METADATA)
        except OSError as error:
            raise self.io.fail(error, f"creating {topic}-{partition}") from error
        log = self._make_log((topic, partition), topic_id, loaded, settings)
        log.is_configured = True
        return log

    def delete(self, log: Log, *, kind: str = DELETE_DIRECTORY) -> None:
        """Take a log out of service now, and delete its files later; the files of a stray log are only renamed.

        In an offline directory the files stay unchanged, and the next start finds a stray log.
        """
        del self.logs[log.topic, log.partition]
        log.retire()
        if not self.is_online:
            return
        self._remove_folder(log, log.folder, kind)

    def _remove_folder(self, log: Log, folder: str, kind: str) -> None:
        aside = self._file(self._marked_name(log, kind))
        try:
            self.io.disk.rename(folder, aside)
        except OSError as error:
            raise self.io.fail(error, f"deleting {log}") from error
        if kind == DELETE_DIRECTORY:
            self._deletion.remove_folder_later(aside, log.settings.file_delete_delay_ms)

    def _marked_name(self, log: Log, kind: str) -> str:
        unique = f"{self.io.random.getrandbits(128):032x}"
        return marked_folder(log.topic, log.partition, unique=unique, kind=kind)

    def create_future(self, log: Log, *, start_offset: int) -> Log:
        """An empty future log for a log of another directory, to be filled until `adopt`."""
        disk = self.io.disk
        folder = self._file(self._marked_name(log, FUTURE_DIRECTORY))
        try:
            disk.make_directory(folder)
            loaded = new_log(self.io, folder, start_offset=start_offset)
            save(disk, os.path.join(folder, PARTITION_METADATA), encode_topic_id(log.topic_id))
            loaded.unsynced_names.append(PARTITION_METADATA)
        except OSError as error:
            raise self.io.fail(error, f"creating a copy of {log}") from error
        # No request waits for appends to a copy: it is flushed as a whole.
        settings = dataclasses.replace(log.settings, flush_messages=NEVER, flush_ms=NEVER)
        copy = Log(
            self.io,
            self._deletion,
            topic=log.topic,
            partition=log.partition,
            topic_id=log.topic_id,
            settings=settings,
            loaded=loaded,
        )
        self.futures[log.topic, log.partition] = copy
        return copy

    def drop_future(self, copy: Log) -> None:
        """Delete a future log."""
        del self.futures[copy.topic, copy.partition]
        copy.retire()
        if self.is_online:
            self._deletion.remove_folder_later(copy.folder, 0)

    def adopt(self, log: Log, copy: Log) -> None:
        """Continue a log of another directory in the files of its future log here.

        The log start offset is checkpointed first: the copy begins with a whole batch, some records of which may have
        been deleted, and the checkpoint of the other directory is not read any more.
        """
        partition = (log.topic, log.partition)
        folder = self._file(partition_folder(*partition))
        try:
            self._clear_checkpoints(*partition)
            write = self._start_offsets.prepare(
                {**self._present_start_offsets(), partition: log.start_offset}
            )
            if write is not None:
                write()
            self.io.disk.rename(copy.folder, folder)
            self.io.disk.sync_directory(self.path)
        except OSError as error:
            raise self.io.fail(error, f"moving {log} here") from error
        del self.futures[partition]
        log.switch_to_copy(copy, folder)
        self.logs[partition] = log

    def moved_away(self, log: Log, folder: str) -> None:
        """Another directory has adopted `log`: forget it, and delete its folder here. The rename is synced: if a power
        cut brought the folder back later, its outdated records might be taken for the log."""
        del self.logs[log.topic, log.partition]
        self._remove_folder(log, folder, DELETE_DIRECTORY)
        try:
            self.io.disk.sync_directory(self.path)
        except OSError as error:
            raise self.io.fail(error, f"moving {log} away") from error

    def _make_log(
        self, partition: Partition, topic_id: Uuid, loaded: LoadedLog, settings: LogSettings
    ) -> Log:
        log = self.logs[partition] = Log(
            self.io,
            self._deletion,
            topic=partition[0],
            partition=partition[1],
            topic_id=topic_id,
            settings=settings,
            loaded=loaded,
        )
        return log

    def _clear_checkpoints(self, topic: str, partition: int) -> None:
        """Remove a deleted log from the checkpoints, so that they do not apply to a new one of that name after a
        crash."""
        for checkpoint in self._checkpoints():
            if (topic, partition) in checkpoint.offsets:
                offsets = {known: at for known, at in checkpoint.offsets.items() if known in self.logs}
                write = checkpoint.prepare(offsets)
                if write is not None:
                    write()

    # Checkpoints

    def _checkpoints(self) -> tuple[OffsetCheckpoint, ...]:
        return self._recovery_points, self._start_offsets, self._high_watermarks, self._cleaned_offsets

    def holds(self, log: Log) -> bool:
        """Whether the log is in this directory now: it may have been deleted, or moved to another one."""
        return self.logs.get((log.topic, log.partition)) is log

    def cleaned_offset(self, log: Log) -> int:
        """Up to where a log was compacted, or 0."""
        return self._cleaned_offsets.offsets.get((log.topic, log.partition), 0)

    async def checkpoint_cleaned_offset(self, log: Log, offset: int) -> None:
        if self.holds(log):
            offsets = {**self._present_cleaned_offsets(), (log.topic, log.partition): offset}
            await self._write(self._cleaned_offsets, offsets)

    async def checkpoint_recovery_points(self) -> None:
        await self._write(self._recovery_points, self._present_recovery_points())

    async def checkpoint_start_offsets(self) -> None:
        await self._write(self._start_offsets, self._present_start_offsets())

    def checkpointed_high_watermark(self, topic: str, partition: int) -> int:
        """Of the last checkpoint, or 0. At the start: that of the run before, even if the log is shorter now."""
        return self._high_watermarks.offsets.get((topic, partition), 0)

    async def checkpoint_high_watermarks(self) -> None:
        offsets = {partition: log.high_watermark for partition, log in self.logs.items()}
        await self._write(self._high_watermarks, offsets)

    def _present_recovery_points(self) -> dict[Partition, int]:
        return {partition: log.durability.scan_offset for partition, log in self.logs.items()}

    def _present_start_offsets(self) -> dict[Partition, int]:
        """Of every log that does not start at 0, even if it starts with a segment: a power cut may bring back deleted
        segments.
        """
        return {partition: log.start_offset for partition, log in self.logs.items() if log.start_offset > 0}

    def _present_cleaned_offsets(self) -> dict[Partition, int]:
        """Never beyond the end of a log: records that are written there later are not clean."""
        return {
            partition: min(offset, self.logs[partition].end_offset)
            for partition, offset in self._cleaned_offsets.offsets.items()
            if partition in self.logs
        }

    def _checkpoint_writes(self) -> list[Callable[[], None]]:
        """To be run after a truncation, before the log is written to again."""
        prepared = (
            self._recovery_points.prepare(self._present_recovery_points()),
            self._start_offsets.prepare(self._present_start_offsets()),
            self._cleaned_offsets.prepare(self._present_cleaned_offsets()),
        )
        return [write for write in prepared if write is not None]

    async def _write(self, checkpoint: OffsetCheckpoint, offsets: dict[Partition, int]) -> None:
        write = checkpoint.prepare(offsets) if self.is_online else None
        if write is not None:
            try:
                await self.io.workers.run(write)
            except OSError as error:
                self.io.fail(error, f"writing {checkpoint.path}")

    # End

    async def close(self, *, leaves_note: bool = True, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Flush everything, write the checkpoints and, unless `leaves_note` is false, the clean shutdown file."""
        self._deletion.close()
        try:
            await asyncio.gather(*[log.close() for log in self.logs.values()])
            await self.checkpoint_recovery_points()
            await self.checkpoint_start_offsets()
            await self.checkpoint_high_watermarks()
            if self.is_online and leaves_note:
                note = self._file(CLEAN_SHUTDOWN)
                content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
                await self.io.workers.run(lambda: self.io.disk.write_file(note, content.encode()))
        except DirectoryOffline:
            pass  # already logged; the next start scans
        except OSError as error:
            self.io.fail(error, "closing it")
        self.release()

    def release(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _go_offline(self) -> None:
        self._deletion.close()
        for log in [*self.logs.values(), *self.futures.values()]:
            log.go_offline()

    def _file(self, name: str) -> str:
        return os.path.join(self.path, name)


def _read_broker_epoch(note: bytes) -> int:
    """The broker epoch in a clean shutdown file (KIP-966); older versions of Kafka wrote an empty file."""
    try:
        return int(json.loads(note)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return NO_BROKER_EPOCH
