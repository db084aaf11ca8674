"""The metadata log as a partition log: `storage.Log` in the shape that `quorum` asks for."""

from __future__ import annotations

from penstock.config.broker import BrokerSettings
from penstock.records import kernel
from penstock.runtime import Clock
from penstock.runtime.disk import Buffer
from penstock.storage.log import Log
from penstock.storage.pages import waiting_for_disk
from penstock.storage.settings import NEVER, UNLIMITED, LogSettings

READ_BYTES = 1 << 20


def metadata_log_settings(settings: BrokerSettings) -> LogSettings:
    """Nothing is ever deleted by time or size: the log is the only copy of what it says until there are snapshots."""
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
    def __init__(self, log: Log, clock: Clock) -> None:
        self._log = log
        self._clock = clock

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def last_epoch(self) -> int:
        return max(self._log.epochs.latest, 0)

    def append(self, batch: bytearray, *, epoch: int) -> int:
        view = memoryview(batch)
        header = kernel.read_header(view, 0)
        # The first append reads the index, before the node serves anybody.
        info = waiting_for_disk(
            lambda: self._log.append(view, [header], leader_epoch=epoch, now_ms=self._clock.wall_ms())
        )
        self._log.high_watermark = info.last_offset + 1
        return info.last_offset + 1

    async def sync(self) -> None:
        await self._log.flush()

    def read(self, offset: int) -> Buffer:
        """What the log holds from `offset` on. Waits for the disk: for the start, when nobody is served."""
        part = waiting_for_disk(
            lambda: self._log.read(
                offset, max_bytes=READ_BYTES, end_offset=self._log.end_offset, at_least_one=True
            )
        )
        return b"" if part is None else part.read()
