"""Slices that the page cache does not hold are found and read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.broker import cold_reads
from penstock.broker.cold_reads import TAIL_BYTES, is_cold, warm
from penstock.runtime.disk import RealDisk, RealFile
from penstock.runtime.network import FileSlice
from penstock.testing.disk import SimulatedDisk

MIB = 1 << 20


@pytest.fixture
def file(tmp_path: Path) -> RealFile:
    file = RealDisk().open(str(tmp_path / "segment.log"), create=True)
    file.append((os.urandom(4 * MIB),))
    file.sync()
    return file


def test_what_was_just_written_is_not_cold(file: RealFile) -> None:
    assert not is_cold(FileSlice(file, 0, MIB))
    assert not is_cold(FileSlice(file, 4 * MIB - 100, 100))


def test_a_page_that_would_block_makes_a_slice_cold(file: RealFile, monkeypatch: pytest.MonkeyPatch) -> None:
    cold_from = 2 * MIB

    def preadv(descriptor: int, buffers: object, position: int, flags: int) -> int:
        if position >= cold_from:
            raise BlockingIOError
        return 1

    monkeypatch.setattr(os, "preadv", preadv)

    assert not is_cold(FileSlice(file, 0, MIB))
    assert is_cold(FileSlice(file, 0, 3 * MIB))  # its end is
    assert is_cold(FileSlice(file, 2 * MIB, 10))
    # A little at the end of a file is a consumer that keeps up: not worth a system call.
    assert not is_cold(FileSlice(file, 4 * MIB - TAIL_BYTES, TAIL_BYTES))
    assert is_cold(FileSlice(file, 4 * MIB - TAIL_BYTES - 1, TAIL_BYTES + 1))


def test_a_file_system_that_cannot_tell_counts_as_warm(
    file: RealFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def preadv(*_: object) -> int:
        raise OSError("not supported")

    monkeypatch.setattr(os, "preadv", preadv)

    assert not is_cold(FileSlice(file, 0, MIB))


def test_a_simulated_file_is_never_cold() -> None:
    disk = SimulatedDisk()
    disk.make_directory("/data")
    file = disk.open("/data/segment.log", create=True)
    file.append((bytes(2 * MIB),))

    assert not is_cold(FileSlice(file, 0, MIB))


def test_warming_reads_every_byte_once(file: RealFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_reads, "READ_BYTES", 1000)
    reads: list[tuple[int, int]] = []
    read = RealFile.read

    def note(self: RealFile, *, position: int, size: int) -> bytes:
        reads.append((position, size))
        return read(self, position=position, size=size)

    monkeypatch.setattr(RealFile, "read", note)

    warm([FileSlice(file, 500, 2500), FileSlice(file, 4 * MIB - 10, 100)])

    assert reads == [(500, 1000), (1500, 1000), (2500, 500), (4 * MIB - 10, 100), (4 * MIB, 90)]


def test_a_read_error_is_left_to_the_one_who_sends(file: RealFile) -> None:
    file.close()

    warm([FileSlice(file, 0, 100)])
