"""Several log directories: which one gets a partition, and what happens when one fails."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import logging

import pytest

from harness.storage import (
    NOW_MS,
    QUIET,
    TOPIC_ID,
    SetClock,
    append,
    make_batch,
    make_runtime,
    make_store,
    read_all,
)
from penstock.protocol.types import Uuid
from penstock.storage.errors import (
    DirectoryOffline,
    DirectoryRefused,
    LogClosed,
    NoDirectory,
    PartitionExists,
)
from penstock.storage.log import Log
from penstock.storage.producer_state import SLICE_PRODUCERS
from penstock.storage.settings import LogSettings, StoreSettings
from penstock.storage.store import LogStore
from simulator.disk import SimulatedDisk
from simulator.loop import VirtualClock, VirtualLoop, run_virtual
from simulator.workers import SimulatedWorkers

SETTINGS = LogSettings()
PATHS = ("/a", "/b")


async def test_new_partitions_go_to_the_directory_with_the_fewest() -> None:
    store = make_store(SimulatedDisk(), PATHS)
    await store.start()

    logs = [store.create("t", partition, TOPIC_ID, SETTINGS) for partition in range(6)]

    assert [log.directory for log in logs] == ["/a", "/b"] * 3
    assert store.create("t", 6, TOPIC_ID, SETTINGS, path="/b").folder == "/b/t-6"
    assert store.get("t", 6) is not None
    assert store.get("t", 7) is None
    assert len(list(store.all())) == 7
    with pytest.raises(PartitionExists):
        store.create("t", 0, TOPIC_ID, SETTINGS)
    with pytest.raises(NoDirectory):
        store.create("t", 8, TOPIC_ID, SETTINGS, path="/c")
    await store.close()


async def test_all_logs_are_loaded_after_a_restart() -> None:
    disk = SimulatedDisk()
    store = make_store(disk, PATHS)
    await store.start()
    for partition in range(4):
        log = store.create("t", partition, TOPIC_ID, SETTINGS)
        append(log, make_batch(partition + 1))
        log.high_watermark = partition
    identities = [directory.directory_id for directory in store.directories]
    await store.close()

    store = make_store(disk, PATHS)
    assert await store.start() == []

    for partition in range(4):
        log = store.get("t", partition)  # type: ignore[assignment]
        assert (log.end_offset, log.high_watermark, log.topic_id) == (partition + 1, partition, TOPIC_ID)
    assert [directory.directory_id for directory in store.directories] == identities
    await store.close()


async def test_a_clean_shutdown_counts_only_once() -> None:
    disk = SimulatedDisk()
    store = make_store(disk)
    await store.start()
    append(store.create("t", 0, TOPIC_ID, SETTINGS), make_batch(1))
    await store.close()
    assert disk.read_file("/data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":-1}'

    await make_store(disk).start()
    disk.kill()
    reports = await make_store(disk).start()

    assert [report.partition for report in reports] == ["t-0"]


async def test_a_directory_of_another_node_or_cluster_is_refused() -> None:
    disk = SimulatedDisk()
    store = make_store(disk)
    await store.start()
    await store.close()
    lines = disk.read_file("/data/meta.properties").decode().splitlines()
    assert {"version=1", "cluster.id=test", "node.id=1"} <= set(lines)

    for node_id, cluster_id in ((2, "test"), (1, "other")):
        stranger = LogStore(
            ["/data"],
            runtime=make_runtime(disk),
            settings=QUIET,
            topic_settings=lambda _: SETTINGS,
            node_id=node_id,
            cluster_id=cluster_id,
        )
        with pytest.raises(DirectoryRefused, match="holds data of"):
            await stranger.start()
    await make_store(disk).start()


async def test_a_directory_in_use_is_refused() -> None:
    disk = SimulatedDisk()
    await make_store(disk).start()

    with pytest.raises(DirectoryRefused, match="in use by another process"):
        await make_store(disk).start()


@pytest.mark.parametrize("longer", PATHS)
async def test_a_crash_at_the_end_of_a_move_leaves_two_copies_and_the_node_starts_with_the_longer(
    longer: str,
) -> None:
    disk = SimulatedDisk()
    for path in PATHS:
        store = make_store(disk, (path,))
        await store.start()
        log = store.create("t", 0, TOPIC_ID, SETTINGS)
        for _ in range(3 if path == longer else 2):
            append(log, make_batch(1))
        await store.close()

    store = make_store(disk, PATHS)
    await store.start()

    kept = store.get("t", 0)
    assert kept is not None
    assert (kept.directory, kept.end_offset) == (longer, 3)
    other = next(path for path in PATHS if path != longer)
    assert all(name.endswith("-stray") for name in disk.list(other) if name.startswith("t-0"))
    assert disk.exists(f"{longer}/t-0")
    await store.close()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EROFS])
async def test_a_failed_directory_goes_offline_with_one_message_and_the_other_keeps_serving(
    error: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimulatedDisk()
    store = make_store(disk, PATHS)
    await store.start()
    offline: list[str] = []
    store.on_directory_offline = lambda directory: offline.append(directory.path)
    bad, good, other = (store.create("t", partition, TOPIC_ID, SETTINGS) for partition in range(3))
    append(bad, make_batch(1))

    disk.fail("/a", error, operations=["append"])
    with caplog.at_level(logging.ERROR):
        for log in (bad, other, bad):
            with pytest.raises(
                DirectoryOffline, match=r"/a is offline: .* while appending to /a/t-0/0+\.log"
            ):
                append(log, make_batch(1))

    assert offline == ["/a"]
    assert len(caplog.records) == 1
    assert append(good, make_batch(1)).first_offset == 0
    assert store.create("t", 3, TOPIC_ID, SETTINGS).directory == "/b"
    assert [(d.path, d.is_online) for d in store.describe()] == [("/a", False), ("/b", True)]
    await store.close()
    assert not disk.exists("/a/.kafka_cleanshutdown")
    assert disk.exists("/b/.kafka_cleanshutdown")


async def test_a_full_disk_leaves_whole_batches_for_the_next_start() -> None:
    disk = SimulatedDisk(capacity_bytes=1000)
    store = make_store(disk)
    await store.start()
    log = store.create("t", 0, TOPIC_ID, SETTINGS)
    written = (1000 - disk.used_bytes()) // len(make_batch(1))
    for _ in range(written):
        append(log, make_batch(1))
    with pytest.raises(DirectoryOffline, match="No space left on device"):
        append(log, make_batch(1))

    disk.kill()
    disk.capacity_bytes = None
    store = make_store(disk)
    (report,) = await store.start()

    assert report.is_cut
    assert len(read_all(store.get("t", 0))) == written  # type: ignore[arg-type]


async def test_a_bad_directory_does_not_prevent_the_others_from_starting() -> None:
    disk = SimulatedDisk()
    disk.make_directory("/a")
    disk.make_read_only("/a")

    store = make_store(disk, PATHS)
    await store.start()

    assert [directory.is_online for directory in store.directories] == [False, True]
    assert store.create("t", 0, TOPIC_ID, SETTINGS).directory == "/b"


async def test_no_directory_at_all_is_an_error() -> None:
    disk = SimulatedDisk()
    disk.fail("/", errno.EIO)

    with pytest.raises(NoDirectory, match="Input/output error"):
        await make_store(disk, PATHS).start()


async def test_a_deleted_log_is_out_of_service_at_once_and_its_name_can_be_reused() -> None:
    disk = SimulatedDisk()
    store = make_store(disk)
    await store.start()
    log = store.create("t", 0, TOPIC_ID, LogSettings(file_delete_delay_ms=0))
    append(log, make_batch(3))
    log.advance_start(2)
    for directory in store.directories:
        await directory.checkpoint_start_offsets()
        await directory.checkpoint_recovery_points()

    store.delete("t", 0)
    store.delete("t", 0)

    assert store.get("t", 0) is None
    with pytest.raises(LogClosed):
        append(log, make_batch(1))
    again = store.create("t", 0, TOPIC_ID, SETTINGS)
    append(again, make_batch(1))
    await again.flush()
    disk.kill()
    store = make_store(disk)
    await store.start()
    assert read_all(store.get("t", 0))[0].base_offset == 0  # type: ignore[arg-type]
    assert [name for name in disk.list("/data") if name.endswith("-delete")] == []


async def test_the_files_of_a_stray_log_are_renamed_and_kept() -> None:
    disk = SimulatedDisk()
    store = make_store(disk)
    await store.start()
    append(store.create("t", 0, TOPIC_ID, SETTINGS), make_batch(1))

    store.mark_stray("t", 0)
    await store.close()
    await make_store(disk).start()

    (aside,) = [name for name in disk.list("/data") if name.endswith("-stray")]
    assert "00000000000000000000.log" in disk.list(f"/data/{aside}")


@pytest.mark.parametrize(
    ("is_lost", "reason"),
    [(True, "has no topic id: its partition.metadata is missing"), (False, "belongs to a deleted topic")],
)
async def test_the_log_says_why_a_log_is_stray(
    is_lost: bool, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimulatedDisk()
    store = make_store(disk)
    await store.start()
    append(store.create("t", 0, TOPIC_ID, SETTINGS), make_batch(1))
    await store.close()
    if is_lost:
        disk.remove("/data/t-0/partition.metadata")
    store = make_store(disk)
    await store.start()

    assert store.claim("t", 0, Uuid(b"the new topic id")) is None

    assert reason in caplog.text


async def test_directories_are_described() -> None:
    disk = SimulatedDisk(capacity_bytes=1 << 20)
    store = make_store(disk)
    await store.start()
    log = store.create("t", 0, TOPIC_ID, SETTINGS)
    append(log, make_batch(3))
    log.high_watermark = 5

    (described,) = store.describe()

    assert described.total_bytes == 1 << 20
    assert 0 < described.usable_bytes < 1 << 20
    assert described.logs[0].size_bytes == log.segments.size_bytes()
    assert described.logs[0].offset_lag == 2


def test_background_tasks_enforce_retention_write_checkpoints_and_expire_producers() -> None:
    loop = VirtualLoop()
    disk = SimulatedDisk()
    settings = StoreSettings(
        retention_check_interval_ms=60_000, producer_id_expiration_ms=1000, open_files_max=10
    )

    async def main() -> None:
        clock = VirtualClock(loop)
        runtime = dataclasses.replace(
            make_runtime(disk), clock=clock, workers=SimulatedWorkers(make_runtime(disk).random)
        )
        store = LogStore(
            ["/data"],
            runtime=runtime,
            settings=settings,
            topic_settings=lambda _: SETTINGS,
            node_id=1,
            cluster_id="test",
        )
        await store.start()
        log = store.create("t", 0, TOPIC_ID, LogSettings(retention_ms=1000, file_delete_delay_ms=0))
        kept = store.create("t", 1, TOPIC_ID, SETTINGS)
        for one in (log, kept):
            batch = make_batch(3, timestamp=clock.wall_ms(), producer_id=1, producer_epoch=0, base_sequence=0)
            append(one, batch)
            one.high_watermark = 3
        kept.advance_start(1)
        await kept.flush()

        await asyncio.sleep(601)

        assert (log.start_offset, log.segments.size_bytes()) == (3, 0)
        assert len(kept.producers) == 0
        assert disk.read_file("/data/recovery-point-offset-checkpoint") == b"0\n2\nt 0 3\nt 1 0\n"
        assert disk.read_file("/data/log-start-offset-checkpoint") == b"0\n2\nt 0 3\nt 1 1\n"
        assert disk.read_file("/data/replication-offset-checkpoint") == b"0\n2\nt 0 3\nt 1 3\n"
        await store.close()

    run_virtual(loop, main())


async def test_a_failed_checkpoint_write_takes_the_directory_offline() -> None:
    disk = SimulatedDisk()
    store = make_store(disk)
    await store.start()
    append(store.create("t", 0, TOPIC_ID, SETTINGS), make_batch(1), now_ms=NOW_MS)
    disk.fail("/data/recovery", errno.EIO)

    await store.directories[0].checkpoint_recovery_points()

    assert not store.directories[0].is_online


@pytest.mark.parametrize("leaves_note", [True, False])
async def test_a_store_knows_whether_the_last_shutdown_was_clean(leaves_note: bool) -> None:
    disk = SimulatedDisk()
    store = make_store(disk, ("/a", "/b"))
    await store.start()
    assert not store.was_clean, "directories that nobody closed may be those of a disk that was replaced"
    append(store.create("t", 0, TOPIC_ID, LogSettings()), make_batch(3))
    await store.close(leaves_note=leaves_note)

    store = make_store(disk, ("/a", "/b"))
    await store.start()

    assert store.was_clean is leaves_note
    await store.close()


def test_retention_continues_after_a_failed_round(caplog: pytest.LogCaptureFixture) -> None:
    """One exception used to end the task for good, and the disk filled up."""
    settings = dataclasses.replace(QUIET, retention_check_interval_ms=10_000, initial_task_delay_ms=0)

    async def main() -> None:
        store = make_store(SimulatedDisk(), settings=settings)
        await store.start()
        rounds: list[int] = []

        async def enforce_retention() -> int:
            rounds.append(1)
            if len(rounds) == 1:
                raise ValueError("no such segment")
            return 0

        store.enforce_retention = enforce_retention  # type: ignore[method-assign]
        await asyncio.sleep(25)
        assert len(rounds) == 4
        await store.close()

    run_virtual(VirtualLoop(), main())
    assert "'log retention' failed: no such segment" in caplog.text


async def test_a_log_that_fails_does_not_prevent_retention_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = make_store(SimulatedDisk())
    await store.start()
    cleaned: list[int] = []
    for partition in range(3):
        store.create("t", partition, TOPIC_ID, SETTINGS)

    def enforce_retention(log: Log, now_ms: int, *, high_watermark: int) -> int:
        if log.partition == 1:
            raise ValueError("no such segment")
        cleaned.append(log.partition)
        return 1

    monkeypatch.setattr(Log, "enforce_retention", enforce_retention)
    with pytest.raises(ValueError, match="no such segment") as caught:
        await store.enforce_retention()

    assert cleaned == [0, 2]
    assert caught.value.__notes__ == ["while enforcing the retention of t-1"]
    await store.close()


async def test_recovery_after_an_unclean_shutdown_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    disk = SimulatedDisk()
    store = make_store(disk, PATHS)
    await store.start()
    append(store.create("t", 0, TOPIC_ID, SETTINGS, path="/a"), make_batch(1))
    await store.close()
    caplog.clear()

    await make_store(disk, PATHS).start()
    assert "loaded 1 logs in /a in" in caplog.text
    assert "not clean" not in caplog.text
    disk.kill()
    await make_store(disk, PATHS).start()

    assert "recovering 1 logs in /a: the last shutdown was not clean" in caplog.text
    assert "recovered 1 logs in /a in" in caplog.text
    assert "1 segments" in caplog.text
    assert "logs in /b: the last shutdown" not in caplog.text


async def test_a_clean_shutdown_passes_the_broker_epoch_to_the_next_start_and_a_crash_does_not() -> None:
    disk = SimulatedDisk()
    store = make_store(disk, PATHS)
    await store.start()
    assert store.previous_broker_epoch == -1
    store.create("t", 0, TOPIC_ID, SETTINGS, path="/a")
    await store.close(broker_epoch=42)

    again = make_store(disk, PATHS)
    await again.start()
    assert again.previous_broker_epoch == 42
    disk.kill()
    after_crash = make_store(disk, PATHS)
    await after_crash.start()

    assert after_crash.previous_broker_epoch == -1


async def test_expiring_many_producers_yields_to_the_event_loop() -> None:
    clock = SetClock()
    store = LogStore(
        ["/data"],
        runtime=make_runtime(SimulatedDisk(), clock=clock),
        settings=dataclasses.replace(QUIET, producer_id_expiration_ms=1000),
        topic_settings=lambda _: LogSettings(),
        node_id=1,
        cluster_id="test",
    )
    await store.start()
    log = store.create("t", 0, TOPIC_ID, LogSettings())
    count = 2 * SLICE_PRODUCERS + 1
    for producer_id in range(count):
        append(log, make_batch(1, producer_id=producer_id, producer_epoch=0, base_sequence=0))
    clock.now_ms = NOW_MS + 1000
    remaining: list[int] = []

    async def watch() -> None:
        while len(log.producers):
            remaining.append(len(log.producers))
            await asyncio.sleep(0)

    await asyncio.gather(watch(), store.expire_producers())

    assert set(remaining) == {count, SLICE_PRODUCERS + 1, 1}
    await store.close()
