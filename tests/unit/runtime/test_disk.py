"""The real disk: errors with file names, and pages that are not in the page cache."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from penstock.runtime.disk import PROBE_BYTES, TAIL_BYTES, RealDisk, RealFile

MIB = 1 << 20


@pytest.fixture
def file(tmp_path: Path) -> RealFile:
    """A file that an earlier process wrote."""
    path = str(tmp_path / "segment.log")
    written = RealDisk().open(path, create=True)
    written.append((os.urandom(4 * MIB),))
    written.close()
    return RealDisk().open(path)


@pytest.fixture
def cold_from(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Non-blocking reads find no cached pages from a position on."""
    cold = {"position": 0}

    def preadv(descriptor: int, buffers: tuple[bytearray], position: int, flags: int) -> int:
        if position >= cold["position"]:
            raise BlockingIOError
        data = os.pread(descriptor, min(len(buffers[0]), cold["position"] - position), position)
        buffers[0][: len(data)] = data
        return len(data)

    monkeypatch.setattr(os, "preadv", preadv)
    return cold


def test_recent_writes_are_cached(file: RealFile) -> None:
    file.append((bytes(MIB),))

    assert file.is_cached(position=0, size=5 * MIB)
    assert file.read_cached(position=4 * MIB, size=100) == bytes(100)


def test_a_page_that_would_block_makes_a_range_cold(file: RealFile, cold_from: dict[str, int]) -> None:
    cold_from["position"] = 2 * MIB

    assert file.is_cached(position=0, size=2 * MIB)
    assert not file.is_cached(position=0, size=3 * MIB)
    assert not file.is_cached(position=2 * MIB, size=10)
    assert file.read_cached(position=2 * MIB - 10, size=10) == file.read(position=2 * MIB - 10, size=10)
    assert file.read_cached(position=2 * MIB - 10, size=11) is None
    assert file.read_cached(position=2 * MIB, size=1) is None


def test_a_hole_in_the_middle_of_a_large_range_is_noticed(
    file: RealFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def preadv(descriptor: int, buffers: object, position: int, flags: int) -> int:
        if PROBE_BYTES <= position < 2 * PROBE_BYTES:
            raise BlockingIOError
        return 1

    monkeypatch.setattr(os, "preadv", preadv)

    assert not file.is_cached(position=0, size=3 * MIB)
    assert file.is_cached(position=0, size=PROBE_BYTES)


def test_the_tail_that_this_process_wrote_is_not_probed(file: RealFile, cold_from: dict[str, int]) -> None:
    file.append((bytes(MIB),))

    # A consumer that keeps up reads it right after it was written: not worth a system call.
    assert file.is_cached(position=5 * MIB - TAIL_BYTES, size=TAIL_BYTES)
    assert not file.is_cached(position=5 * MIB - TAIL_BYTES - 1, size=TAIL_BYTES)


def test_the_tail_that_an_earlier_process_wrote_may_be_cold(
    file: RealFile, cold_from: dict[str, int]
) -> None:
    assert not file.is_cached(position=4 * MIB - 100, size=100)


def test_a_cached_read_ends_with_the_file(file: RealFile) -> None:
    assert file.read_cached(position=4 * MIB - 10, size=100) == file.read(position=4 * MIB - 10, size=100)
    assert file.read_cached(position=4 * MIB, size=100) == b""


def test_a_file_system_without_support_counts_as_cached(
    file: RealFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def preadv(*_: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(os, "preadv", preadv)

    assert file.is_cached(position=0, size=PROBE_BYTES)
    assert file.read_cached(position=0, size=MIB) == file.read(position=0, size=MIB)


@pytest.mark.parametrize("operation", ["read", "append", "truncate", "sync"])
def test_an_error_names_its_file(file: RealFile, operation: str) -> None:
    path = file.path
    os.close(file.fileno())
    calls = {
        "read": lambda: file.read(position=0, size=1),
        "append": lambda: file.append((b"x",)),
        "truncate": lambda: file.truncate(0),
        "sync": file.sync,
    }

    with pytest.raises(OSError, match="Bad file descriptor") as caught:
        calls[operation]()

    assert caught.value.filename == path
    file._fd = -1  # or it would be closed twice
