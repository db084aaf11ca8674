"""The simulated disk: like a real one while the power is on, and forgetful after a power cut."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.runtime.disk import Disk, RealDisk
from simulator.disk import SimulatedDisk


@pytest.fixture(params=["real", "simulated"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, str]:
    """Both disks, so that the fake is held to the real one."""
    if request.param == "real":
        return RealDisk(), str(tmp_path)
    disk = SimulatedDisk()
    disk.make_directory("/place")
    return disk, "/place"


def test_files_are_appended_to_and_read_by_position(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(f"{root}/x", create=True)

    assert file.append((b"abc", memoryview(b"de"))) == 5
    assert file.append((bytearray(b"f"),)) == 1

    assert file.size() == 6
    assert file.read(position=2, size=3) == b"cde"
    assert file.read(position=4, size=100) == b"ef"
    assert disk.open(f"{root}/x").size() == 6
    file.truncate(2)
    file.append((b"Z",))
    assert disk.read_file(f"{root}/x") == b"abZ"
    file.close()


def test_an_open_file_outlives_its_name(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(f"{root}/x", create=True)
    file.append((b"abc",))

    disk.remove(f"{root}/x")

    assert file.read(position=0, size=3) == b"abc"
    assert not disk.exists(f"{root}/x")


def test_folders(place: tuple[Disk, str]) -> None:
    disk, root = place
    disk.make_directory(f"{root}/a/b")
    disk.make_directory(f"{root}/a/b")
    disk.write_file(f"{root}/a/b/two", b"2")
    disk.write_file(f"{root}/a/b/one", b"1")
    disk.write_file(f"{root}/a/b/one", b"11")

    assert disk.list(f"{root}/a/b") == ["one", "two"]
    assert disk.read_file(f"{root}/a/b/one") == b"11"
    assert disk.is_directory(f"{root}/a")
    assert not disk.is_directory(f"{root}/a/b/one")
    disk.rename(f"{root}/a/b/one", f"{root}/a/b/two")
    assert disk.read_file(f"{root}/a/b/two") == b"11"
    disk.rename(f"{root}/a", f"{root}/c")
    assert disk.list(root) == ["c"]
    disk.sync_directory(f"{root}/c")
    disk.remove_tree(f"{root}/c")
    assert disk.list(root) == []


def test_missing_files_and_folders_are_reported(place: tuple[Disk, str]) -> None:
    disk, root = place
    attempts: list[Callable[[], object]] = [
        lambda: disk.open(f"{root}/x"),
        lambda: disk.read_file(f"{root}/x"),
        lambda: disk.remove(f"{root}/x"),
        lambda: disk.remove_tree(f"{root}/x"),
        lambda: disk.list(f"{root}/x"),
        lambda: disk.rename(f"{root}/x", f"{root}/y"),
        lambda: disk.open(f"{root}/x/y", create=True),
        lambda: disk.modified_ms(f"{root}/x"),
    ]
    for attempt in attempts:
        with pytest.raises(FileNotFoundError):
            attempt()


def test_a_lock_is_held_once(place: tuple[Disk, str]) -> None:
    disk, root = place
    lock = disk.lock(f"{root}/lock")

    with pytest.raises(BlockingIOError):
        disk.lock(f"{root}/lock")
    lock.release()
    disk.lock(f"{root}/lock").release()


def test_synced_data_survives_every_crash() -> None:
    for seed in range(50):
        disk = SimulatedDisk()
        file = disk.open("/x", create=True)
        file.append((b"safe",))
        file.sync()
        disk.sync_directory("/")
        file.append((b" and not",))

        disk.crash(random.Random(seed))

        data = disk.read_file("/x")
        assert data[:4] == b"safe"
        assert len(data) <= 12


def test_unsynced_data_is_lost_torn_zeroed_or_kept() -> None:
    found = set()
    for seed in range(200):
        disk = SimulatedDisk()
        file = disk.open("/x", create=True)
        file.sync()
        disk.sync_directory("/")
        file.append((b"abcd",))
        disk.crash(random.Random(seed))
        found.add(disk.read_file("/x"))

    assert {b"", b"ab", b"abcd", bytes(4)} <= found


def test_names_are_durable_only_after_a_sync_of_their_folder() -> None:
    outcomes = set()
    for seed in range(50):
        disk = SimulatedDisk()
        disk.open("/old", create=True).sync()
        disk.sync_directory("/")
        disk.open("/new", create=True).sync()
        disk.rename("/old", "/renamed")
        disk.crash(random.Random(seed))
        outcomes.add(tuple(disk.list("/")))

    assert outcomes == {("old",), ("new", "old"), ("new", "renamed")}


def test_the_seed_decides_what_a_crash_leaves() -> None:
    def contents(seed: int) -> bytes:
        disk = SimulatedDisk()
        file = disk.open("/x", create=True)
        disk.sync_directory("/")
        for step in range(20):
            file.append((bytes([step]) * 10,))
        disk.crash(random.Random(seed))
        return disk.read_file("/x")

    assert contents(3) == contents(3)
    assert len({contents(seed) for seed in range(10)}) > 1


def test_atomic_files_are_old_or_new() -> None:
    for seed in range(30):
        disk = SimulatedDisk()
        disk.make_directory("/d")
        disk.sync_directory("/")
        disk.write_file("/d/x", b"old")
        disk.fail("/d/x", errno.EIO, operations=["sync_directory", "rename"])
        with pytest.raises(OSError, match="Input/output"):
            disk.write_file("/d/x", b"new")
        disk.crash(random.Random(seed))
        assert disk.read_file("/d/x") in (b"old", b"new")


def test_a_kill_invalidates_only_open_files() -> None:
    disk = SimulatedDisk()
    file = disk.open("/x", create=True)
    file.append((b"abc",))
    disk.lock("/lock")

    disk.kill()

    assert disk.read_file("/x") == b"abc"
    disk.lock("/lock")
    with pytest.raises(OSError, match="Stale"):
        file.append((b"d",))


def test_a_full_disk_writes_what_fits() -> None:
    disk = SimulatedDisk(capacity_bytes=10)
    file = disk.open("/x", create=True)
    file.append((b"12345678",))

    with pytest.raises(OSError, match="No space left"):
        file.append((b"abcd",))

    assert disk.read_file("/x") == b"12345678ab"
    assert file.size() == 8
    assert disk.space("/") == (10, 0)


def test_faults_apply_to_some_paths_and_operations_and_may_start_later() -> None:
    disk = SimulatedDisk()
    for folder in ("/a", "/b"):
        disk.make_directory(folder)
    disk.make_read_only("/a")
    with pytest.raises(OSError, match="Read-only"):
        disk.open("/a/x", create=True)
    file = disk.open("/b/x", create=True)
    disk.fail("/b/x", errno.EIO, operations=["sync"], skip=1)
    file.sync()
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    disk.heal()
    file.sync()


def test_reserving_space_changes_nothing_visible(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(f"{root}/x", create=True)
    file.append((b"abc",))

    file.reserve(1 << 20)

    assert file.size() == 3
    assert disk.open(f"{root}/x").size() == 3
    file.append((b"d",))
    assert disk.read_file(f"{root}/x") == b"abcd"


def test_space_that_is_not_free_cannot_be_reserved() -> None:
    with pytest.raises(OSError, match="No space left"):
        SimulatedDisk(capacity_bytes=10).open("/x", create=True).reserve(11)
