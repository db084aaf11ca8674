"""The disk as one process sees it: changes are counted and traced, and end with the process."""

from __future__ import annotations

import contextlib
import random

import pytest

from penstock.runtime.disk import Disk
from simulator.disk import SimulatedDisk
from simulator.loop import VirtualLoop, run_virtual
from simulator.mount import Mount
from simulator.process import Died, Process

PATH = "/data/file"


class World:
    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.disk.make_directory("/data")
        self.disk.sync_directory("/")
        self.notes: list[str] = []
        self.process = Process("one")
        self.mount = Mount(self.disk, self.process, note=self.notes.append, die=self.process.die)


def make_world() -> World:
    async def make() -> World:
        return World()

    return run_virtual(VirtualLoop(), make())


@pytest.fixture
def world() -> World:
    return make_world()


def save(disk: Disk) -> None:
    file = disk.open(PATH, create=True)
    file.append((b"abc",))
    file.sync()
    disk.sync_directory("/data")


def test_only_changes_are_traced(world: World) -> None:
    save(world.mount)
    assert world.mount.read_file(PATH) == b"abc"
    assert world.mount.exists(PATH)
    assert world.mount.list("/data") == ["file"]

    assert world.notes == [
        f"create {PATH}",
        f"append 3 bytes, 352441c2, to {PATH}",
        f"sync {PATH}",
        "sync names in /data",
    ]


@pytest.mark.parametrize("changes", range(4))
def test_the_process_dies_before_the_next_change_when_the_countdown_ends(world: World, changes: int) -> None:
    world.mount.changes_left = changes

    with pytest.raises(Died):
        save(world.mount)

    assert not world.process.is_alive
    assert len(world.notes) == changes + 1
    assert world.notes[-1].startswith("one dies before: ")


def test_the_countdown_can_start_with_a_certain_change(world: World) -> None:
    world.mount.changes_left, world.mount.countdown_trigger = 1, "sync"

    with pytest.raises(Died):
        save(world.mount)

    assert world.notes[2:] == [f"sync {PATH}", "one dies before: sync names in /data"]


def test_a_small_file_is_replaced_in_steps_and_is_the_old_or_the_new_one_after_each() -> None:
    for changes in range(7):
        world = make_world()
        world.disk.write_file(PATH, b"old")
        world.mount.changes_left = changes
        with contextlib.suppress(Died):
            world.mount.write_file(PATH, b"new")
        world.disk.crash(random.Random(changes))

        assert world.disk.read_file(PATH) in (b"old", b"new")
    assert world.disk.read_file(PATH) == b"new", "there are only six changes"


def test_a_dead_process_cannot_use_the_disk(world: World) -> None:
    save(world.mount)
    file = world.mount.open(PATH)
    world.process.die()

    for use in (
        lambda: file.append((b"more",)),
        lambda: file.read(position=0, size=1),
        lambda: world.mount.open(PATH),
        lambda: world.mount.remove(PATH),
        lambda: world.mount.exists(PATH),
        lambda: world.mount.write_file(PATH, b""),
    ):
        with pytest.raises(Died):
            use()
    assert world.disk.read_file(PATH) == b"abc"
