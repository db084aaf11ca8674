"""Snapshot files: what is written is read back, and a damaged file is never used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.protocol.types import Uuid
from penstock.quorum.messages import SnapshotId
from penstock.quorum.snapshots import CorruptSnapshot, SnapshotHead, Snapshots, snapshot_file
from penstock.quorum.voters import ReplicaKey, Voter, VoterEndpoint, Voters
from penstock.records import kernel
from penstock.runtime.disk import RealDisk, RealFile

VOTERS = Voters([Voter(ReplicaKey(1, Uuid(b"d" * 16)), (VoterEndpoint("CONTROLLER", "h", 9093),))])
HEAD = SnapshotHead(VOTERS, 1, 1234)
ID = SnapshotId(100, 7)


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    return Snapshots(RealDisk(), str(tmp_path))


def test_a_snapshot_is_read_back(snapshots: Snapshots, tmp_path: Path) -> None:
    values = [b"%d" % number * 100 for number in range(50_000)]

    size = snapshots.write(ID, HEAD, values, now_ms=5)
    head, batches = snapshots.load(ID)

    assert head == HEAD
    assert [value for batch in batches for value in batch.values] == values
    path = tmp_path / "00000000000000000100-0000000007.checkpoint"
    assert path.stat().st_size == size
    assert len(os.listdir(tmp_path)) == 1
    headers = kernel.check_batches(path.read_bytes())
    assert [header.base_offset for header in headers][:2] == [0, 3]
    assert {header.leader_epoch for header in headers} == {7}
    assert headers[-1].is_control
    assert headers[-1].record_count == 1


def test_a_static_quorum_has_no_voters_in_its_snapshots(snapshots: Snapshots) -> None:
    snapshots.write(ID, SnapshotHead(None, 0, 9), [b"a"], now_ms=5)

    head, batches = snapshots.load(ID)

    assert head == SnapshotHead(None, 0, 9)
    assert [batch.values for batch in batches] == [[b"a"]]


@pytest.mark.parametrize("kept", [0, 10, 61, 0.5, -70, -1])
def test_a_torn_snapshot_is_corrupt(snapshots: Snapshots, tmp_path: Path, kept: float) -> None:
    snapshots.write(ID, HEAD, [b"a" * 100, b"b" * 100], now_ms=5)
    path = tmp_path / os.listdir(tmp_path)[0]
    data = path.read_bytes()
    path.write_bytes(data[: int(kept * len(data)) if isinstance(kept, float) else kept])

    with pytest.raises(CorruptSnapshot, match=str(path)):
        snapshots.load(ID)


def test_a_changed_bit_anywhere_makes_a_snapshot_corrupt_or_is_not_part_of_the_content(
    snapshots: Snapshots, tmp_path: Path
) -> None:
    snapshots.write(ID, HEAD, [b"abc", b"def"], now_ms=5)
    path = tmp_path / os.listdir(tmp_path)[0]
    data = path.read_bytes()
    expected = [value for batch in snapshots.load(ID)[1] for value in batch.values]

    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        path.write_bytes(damaged)
        try:
            head, batches = snapshots.load(ID)
        except CorruptSnapshot:
            continue
        # Offsets and epochs of the batches are outside the checksum.
        assert head == HEAD
        assert [value for batch in batches for value in batch.values] == expected


def test_leftovers_are_removed_and_snapshots_are_found_in_order(snapshots: Snapshots, tmp_path: Path) -> None:
    for snapshot_id in (SnapshotId(20, 3), SnapshotId(5, 2)):
        snapshots.write(snapshot_id, HEAD, [], now_ms=5)
    snapshots.begin(ID).append(b"half")
    (tmp_path / "00000000000000000001-0000000001.checkpoint.deleted").write_bytes(b"")
    (tmp_path / "00000000000000000000.log").write_bytes(b"")

    snapshots.scan()

    assert snapshots.ids == [SnapshotId(5, 2), SnapshotId(20, 3)]
    assert sorted(os.listdir(tmp_path)) == [
        "00000000000000000000.log",
        "00000000000000000005-0000000002.checkpoint",
        "00000000000000000020-0000000003.checkpoint",
    ]


def test_an_interrupted_download_starts_again_from_the_beginning(snapshots: Snapshots) -> None:
    snapshots.begin(ID).append(b"half of it")
    whole = snapshots.write(ID, HEAD, [b"a"], now_ms=5)

    snapshots.scan()

    assert snapshots.latest == ID
    assert snapshots.size_bytes(ID) == whole


def test_two_attempts_to_write_a_snapshot_use_files_of_their_own(
    snapshots: Snapshots, tmp_path: Path
) -> None:
    first, second = snapshots.begin(ID), snapshots.begin(ID)
    first.append(b"of the first")
    second.append(b"of the second")

    first.publish()
    assert (tmp_path / snapshot_file(ID)).read_bytes() == b"of the first"
    second.abandon()

    assert os.listdir(tmp_path) == [snapshot_file(ID)]


def test_a_snapshot_that_cannot_be_written_leaves_no_file(
    snapshots: Snapshots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: RealFile) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(RealFile, "sync", fail)

    with pytest.raises(OSError, match="no space"):
        snapshots.write(ID, HEAD, [b"a"], now_ms=5)

    assert os.listdir(tmp_path) == []


def test_a_deleted_snapshot_can_still_be_read_by_its_open_reader(snapshots: Snapshots) -> None:
    for snapshot_id in (SnapshotId(5, 2), ID):
        snapshots.write(snapshot_id, HEAD, [b"a"], now_ms=5)
    snapshots.scan()

    dropped = snapshots.forget_before(ID)
    snapshots.remove(dropped)

    assert dropped == [SnapshotId(5, 2)]
    assert snapshots.ids == [ID]
