"""The metadata log over `storage`: what the quorum relies on, and what a damaged file does."""

from __future__ import annotations

import random

import pytest

from harness.storage import InlineWorkers, SetClock, make_store
from penstock.node.metadata_log import StoredQuorumLog
from penstock.protocol.types import METADATA_TOPIC_ID
from penstock.quorum.log import build_data_batch
from penstock.quorum.opening import CorruptMetadataLog, Opened, open_quorum
from penstock.quorum.snapshots import Snapshots
from penstock.quorum.state_file import QuorumStateFile
from penstock.records import kernel
from penstock.records.batch import assign_offsets
from penstock.storage.settings import LogSettings
from penstock.storage.store import LogStore
from simulator.disk import SimulatedDisk

TOPIC = "__cluster_metadata"
FOLDER = f"/data/{TOPIC}-0"

A_RECORD = 65  # positions in the log, of a record, and of an offset, which no checksum covers
AN_OFFSET = 75


class Stored:
    """A metadata log, and the store that it is in."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.store: LogStore
        self.log: StoredQuorumLog

    async def open(self) -> StoredQuorumLog:
        self.store = make_store(self.disk)
        await self.store.start()
        log = self.store.get(TOPIC, 0)
        if log is None:
            log = self.store.create(TOPIC, 0, METADATA_TOPIC_ID, LogSettings())
        committed_offset = self.store.directory_of(log).checkpointed_high_watermark(TOPIC, 0)
        self.log = StoredQuorumLog(log, SetClock(), InlineWorkers(), committed_offset=committed_offset)
        await self.log.prepare()
        return self.log

    async def open_quorum(self) -> Opened:
        state_file = QuorumStateFile(self.disk, FOLDER)
        return await open_quorum(
            self.log, Snapshots(self.disk, FOLDER), state_file, InlineWorkers(), is_controller=True
        )

    def damage(self, position: int) -> None:
        path = f"{FOLDER}/{0:020d}.log"
        data = bytearray(self.disk.read_file(path))
        data[position] ^= 0x40
        self.disk.remove(path)
        file = self.disk.open(path, create=True)
        file.append([bytes(data)])
        file.sync()
        self.disk.sync_directory(FOLDER)


@pytest.fixture
async def stored() -> Stored:
    stored = Stored(SimulatedDisk())
    await stored.open()
    return stored


def batch(*values: bytes) -> bytearray:
    return build_data_batch(values, timestamp_ms=1)


def fetched(value: bytes, *, offset: int, epoch: int) -> bytearray:
    data = batch(value)
    assign_offsets(data, 0, base_offset=offset, leader_epoch=epoch)
    return data


async def test_an_append_does_not_move_the_high_watermark(stored: Stored) -> None:
    log = stored.log
    assert log.append(batch(b"a", b"b"), epoch=1) == 2
    assert stored.store.get(TOPIC, 0).high_watermark == 0  # type: ignore[union-attr]

    await log.sync()
    assert stored.store.get(TOPIC, 0).high_watermark == 0  # type: ignore[union-attr]
    log.set_high_watermark(2)
    assert stored.store.get(TOPIC, 0).high_watermark == 2  # type: ignore[union-attr]


async def test_epochs_end_where_the_next_one_starts(stored: Stored) -> None:
    log = stored.log
    assert log.end_of_epoch(5) is None
    log.append(batch(b"a"), epoch=2)
    log.append(batch(b"b"), epoch=2)
    log.append_fetched(fetched(b"c", offset=2, epoch=5))

    assert [log.end_of_epoch(epoch) for epoch in (1, 2, 3, 5, 9)] == [None, (2, 2), (2, 2), (5, 3), (5, 3)]
    assert (log.end_offset, log.last_epoch) == (3, 5)


async def test_a_truncation_removes_whole_batches_and_their_epochs(stored: Stored) -> None:
    log = stored.log
    log.append(batch(b"a"), epoch=1)
    log.append(batch(b"b", b"c"), epoch=2)

    await log.truncate(2)

    assert (log.end_offset, log.last_epoch) == (1, 1)
    assert log.append(batch(b"d"), epoch=3) == 2
    await log.truncate_fully(40)
    assert (log.start_offset, log.end_offset, log.end_of_epoch(9)) == (40, 40, None)
    assert log.append(batch(b"e"), epoch=4) == 41


async def test_reads_stop_at_the_given_end(stored: Stored) -> None:
    log = stored.log
    for value in (b"a", b"b", b"c"):
        log.append(batch(value), epoch=1)

    async def read(offset: int, end_offset: int, max_bytes: int = 1000) -> list[int]:
        data = await log.load(offset, max_bytes=max_bytes, end_offset=end_offset)
        return [header.base_offset for header in kernel.read_headers(data)]

    assert await read(0, 3) == [0, 1, 2]
    assert await read(1, 2) == [1]
    assert await read(1, 3, max_bytes=1) == [1]
    assert await read(3, 3) == []


async def test_records_below_a_snapshot_are_deleted_from_the_start(stored: Stored) -> None:
    log = stored.log
    for value in (b"a", b"b", b"c"):
        log.append(batch(value), epoch=1)
    log.set_high_watermark(3)

    log.delete_before(2)

    assert (log.start_offset, log.end_offset) == (2, 3)


async def commit_three(stored: Stored) -> None:
    for value in (b"a", b"b", b"c"):
        stored.log.append(batch(value), epoch=1)
    await stored.log.sync()
    stored.log.set_high_watermark(3)


@pytest.mark.parametrize("position", [AN_OFFSET, A_RECORD])
async def test_a_log_that_was_damaged_after_a_clean_shutdown_is_not_read(
    stored: Stored, position: int
) -> None:
    await commit_three(stored)
    await stored.store.close()
    stored.damage(position)
    await stored.open()

    with pytest.raises(
        CorruptMetadataLog,
        match=f"the metadata log in {FOLDER} is damaged.*restore the folder.*remove-controller",
    ):
        await stored.open_quorum()


async def test_a_log_that_lost_committed_records_in_the_recovery_is_not_used(stored: Stored) -> None:
    await commit_three(stored)
    (directory,) = stored.store.directories
    await directory.checkpoint_high_watermarks()
    stored.damage(A_RECORD)
    stored.disk.crash(random.Random(1))

    for _ in range(2):
        await stored.open()
        assert stored.log.end_offset == 0
        with pytest.raises(CorruptMetadataLog, match="ends at offset 0, but it was committed up to 3"):
            await stored.open_quorum()
        await stored.store.close()


async def test_an_unfinished_append_at_the_end_is_only_truncated(stored: Stored) -> None:
    await commit_three(stored)
    (directory,) = stored.store.directories
    await directory.checkpoint_high_watermarks()
    stored.log.append(batch(b"not synced"), epoch=1)
    size = len(stored.disk.read_file(f"{FOLDER}/{0:020d}.log"))
    stored.damage(position=size - 3)
    stored.disk.crash(random.Random(1))

    await stored.open()
    opened = await stored.open_quorum()

    assert stored.log.end_offset == 3
    assert opened.snapshot is None


async def test_the_first_start_after_a_format_is_not_a_recovery(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    disk.make_directory(FOLDER)
    file = disk.open(f"{FOLDER}/{0:020d}-{0:010d}.checkpoint", create=True)
    file.sync()

    await Stored(disk).open()

    assert "recovering" not in caplog.text


async def test_a_follower_that_lost_power_does_not_miss_records_that_were_never_synced(
    stored: Stored,
) -> None:
    """It had learned from the leader that they were committed, and could not start: "it was committed up to 3"."""
    stored.log.append(batch(b"a"), epoch=1)
    await stored.log.sync()
    stored.log.append(batch(b"b"), epoch=1)
    stored.log.set_high_watermark(2)

    assert stored.log._log.high_watermark == 1
