"""Passes committed records to the listener: in order, each exactly once, in pieces, so that the event loop stays free.

A leader is announced (`elected`) only when everything before its epoch has been replayed, and if it still leads then.
From then on its own records are only reported (`committed`), because it has applied them already. After it resigned,
records that were not committed by then are replayed if another leader commits them.

Invariant: `position` is the end of what the listener has; it never goes back, and never passes the high watermark.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from penstock.quorum.listener import QuorumListener
from penstock.quorum.log import DataBatch, QuorumLog, data_batches
from penstock.quorum.messages import LeaderAndEpoch, SnapshotId
from penstock.records import kernel

PIECE_BYTES = 256 << 10  # about 2,000 partitions, which take 0.1 s


class Replayer:
    def __init__(
        self,
        log: QuorumLog,
        listener: QuorumListener,
        *,
        start_offset: int,
        is_leader_of: Callable[[int], bool],
    ) -> None:
        """`is_leader_of`: whether this node leads in an epoch. The core may know a newer one before `resign` is called,
        while the driver saves it."""
        self._log = log
        self._listener = listener
        self._is_leader_of = is_leader_of
        self.position = start_offset
        self._high_watermark = start_offset
        self._reported = 0
        self._elected: tuple[int, int] | None = None
        """The epoch in which this node leads but is not announced yet, and where it starts."""
        self.active_epoch: int | None = None
        """The epoch in which this node leads, between `elected` and `resigned`."""
        self.is_announced = asyncio.Event()
        """Set with the first `elected`."""
        self.reading = asyncio.Lock()
        """Held while the log is read. A truncation takes it, too, because the log rejects reads meanwhile."""
        self._wake = asyncio.Event()

    def leads_from(self, epoch: int, start_offset: int) -> None:
        """This node leads from now on; its epoch starts at this offset."""
        self._elected = (epoch, start_offset)

    def leader_changed(self, leader: LeaderAndEpoch) -> None:
        if self.active_epoch not in (None, leader.epoch):
            self._resign()
        if self._elected is not None and self._elected[0] != leader.epoch:
            self._elected = None
        self._listener.leader_changed(*leader)
        self._wake.set()

    def resign(self) -> None:
        """This node no longer leads, whether or not another leader is known."""
        self._elected = None
        self._resign()

    def _resign(self) -> None:
        if self.active_epoch is not None:
            self.active_epoch = None
            self._listener.resigned()

    def committed(self, high_watermark: int) -> None:
        """The high watermark moved."""
        self._high_watermark = max(self._high_watermark, high_watermark)
        if self.active_epoch is None:
            self._wake.set()
        else:
            self.position = self._high_watermark
            self._report()

    def load_snapshot(self, batches: Iterator[DataBatch], snapshot_id: SnapshotId) -> None:
        assert self.active_epoch is None, "a leader loads no snapshots"
        self.position = snapshot_id.end_offset
        self._high_watermark = max(self._high_watermark, snapshot_id.end_offset)
        self._listener.load_snapshot(batches, snapshot_id)
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self.active_epoch is None and self.position < self._high_watermark:
                await self._replay_piece()
            if self.active_epoch is None:
                self._announce()
                self._report()

    async def _replay_piece(self) -> None:
        async with self.reading:
            start_offset, end_offset = self.position, self._high_watermark
            if start_offset >= end_offset:
                return  # a snapshot was loaded meanwhile
            piece = await self._log.load(start_offset, max_bytes=PIECE_BYTES, end_offset=end_offset)
        headers = kernel.read_headers(piece)
        assert headers, (
            f"the metadata log has no record at {start_offset}, below the high watermark {end_offset}"
        )
        batches = data_batches(piece, start_offset=start_offset, end_offset=end_offset)
        self.position = headers[-1].next_offset
        if batches:
            self._listener.replay(batches)
        await asyncio.sleep(0)  # other tasks get their turn between two pieces

    def _announce(self) -> None:
        if self._elected is None or self.position <= self._elected[1]:
            return
        epoch, self._elected = self._elected[0], None
        if self._is_leader_of(epoch):
            self.active_epoch = epoch
            self._listener.elected(epoch)
            self.is_announced.set()

    def _report(self) -> None:
        if self.position > self._reported:
            self._reported = self.position
            self._listener.committed(self.position)
