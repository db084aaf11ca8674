"""The metadata log: adapts `storage.Log` to the interface of `quorum`."""

from __future__ import annotations

from penstock.config.broker import BrokerSettings
from penstock.records import kernel
from penstock.runtime import Clock, Workers
from penstock.runtime.disk import Buffer
from penstock.runtime.network import FileSlice
from penstock.storage.log import Log
from penstock.storage.pages import read_cached, waiting_for_disk, when_loaded
from penstock.storage.settings import NEVER, UNLIMITED, LogSettings


def metadata_log_settings(settings: BrokerSettings) -> LogSettings:
    """No retention by time or size: the quorum deletes what is in a snapshot (`quorum.snapshots`)."""
    return LogSettings(
        segment_bytes=settings.get("metadata.log.segment.bytes"),
        segment_ms=settings.get("metadata.log.segment.ms"),
        retention_bytes=UNLIMITED,
        retention_ms=UNLIMITED,
        flush_messages=NEVER,
        flush_ms=NEVER,
        delete=False,
    )


class StoredQuorumLog:
    """The high watermark of the log moves only on commit: retention must not delete what is not committed."""

    def __init__(self, log: Log, clock: Clock, workers: Workers, *, committed_offset: int = 0) -> None:
        """`committed_offset`: the high watermark of the run before, as far as it is known."""
        self._log = log
        self.committed_offset = committed_offset
        self._clock = clock
        self._workers = workers

    @property
    def start_offset(self) -> int:
        return self._log.start_offset

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def last_epoch(self) -> int:
        return max(self._log.epochs.latest, 0)

    @property
    def size_bytes(self) -> int:
        return self._log.segments.size_bytes()

    def end_of_epoch(self, epoch: int) -> tuple[int, int] | None:
        entries = self._log.epochs.entries()
        end_offset = self._log.end_offset
        for known, start_offset in reversed(entries):
            if known <= epoch:
                return known, end_offset
            end_offset = start_offset
        return None

    def append(self, batch: bytearray, *, epoch: int) -> int:
        view = memoryview(batch)
        header = kernel.read_header(view, 0)
        # After a truncation the next append may read the index from disk.
        info = waiting_for_disk(
            lambda: self._log.append(view, [header], leader_epoch=epoch, now_ms=self._clock.wall_ms())
        )
        return info.last_offset + 1

    def append_fetched(self, batches: Buffer) -> int:
        view = memoryview(batches)
        waiting_for_disk(lambda: self._log.append_as_follower(view, now_ms=self._clock.wall_ms()))
        return self._log.end_offset

    async def prepare(self) -> None:
        await when_loaded(self._log.prepare_append, self._workers)

    async def sync(self) -> None:
        await self._log.flush()

    async def truncate(self, end_offset: int) -> None:
        await self._log.truncate(end_offset)

    async def truncate_fully(self, start_offset: int) -> None:
        await self._log.truncate_fully(start_offset)

    def delete_before(self, start_offset: int) -> None:
        self._log.advance_start(start_offset)

    def set_high_watermark(self, high_watermark: int) -> None:
        # The checkpoint of the directory keeps it. A follower may learn that records are committed before they are on
        # its own disk: after a power cut it must not miss them. An offset after the end belongs to lost records.
        log = self._log
        is_lost = high_watermark > log.end_offset
        log.high_watermark = high_watermark if is_lost else min(high_watermark, log.durability.recovery_point)

    async def load(self, offset: int, *, max_bytes: int, end_offset: int) -> Buffer:
        def read() -> Buffer:
            part = self._slice(offset, max_bytes, end_offset)
            return b"" if part is None else read_cached(part)

        return await when_loaded(read, self._workers)

    def _slice(self, offset: int, max_bytes: int, end_offset: int) -> FileSlice | None:
        return self._log.read(offset, max_bytes=max_bytes, end_offset=end_offset, at_least_one=True)
