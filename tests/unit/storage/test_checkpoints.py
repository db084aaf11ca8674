"""Checkpoint files: Kafka's text format, replaced atomically, never with older offsets."""

from __future__ import annotations

import pytest

from penstock.storage.checkpoints import OffsetCheckpoint, decode_offsets, encode_offsets
from penstock.storage.errors import CorruptFile
from simulator.disk import SimulatedDisk


def test_checkpoint_text_is_kafkas_format() -> None:
    data = encode_offsets({("orders", 1): 998, ("orders", 0): 1041})

    assert data == b"0\n2\norders 0 1041\norders 1 998\n"
    assert decode_offsets(data, name="x") == {("orders", 0): 1041, ("orders", 1): 998}


@pytest.mark.parametrize(
    "data", [b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na b 1\n", b"x", b"0\n", b"\xff\xfe"]
)
def test_a_malformed_checkpoint_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptFile, match="the-file"):
        decode_offsets(data, name="the-file")


def test_an_empty_file_holds_nothing() -> None:
    assert decode_offsets(b"", name="x") == {}


def test_unchanged_offsets_are_not_written() -> None:
    checkpoint = OffsetCheckpoint(SimulatedDisk(), "/points")
    write = checkpoint.prepare({("a", 0): 1})
    assert write is not None
    write()

    assert checkpoint.prepare({("a", 0): 1}) is None
    assert OffsetCheckpoint(SimulatedDisk(), "/none").read() == {}


def test_an_older_state_does_not_replace_a_newer_one() -> None:
    disk = SimulatedDisk()
    checkpoint = OffsetCheckpoint(disk, "/points")
    older = checkpoint.prepare({("a", 0): 5})
    newer = checkpoint.prepare({("a", 0): 2})
    assert older is not None
    assert newer is not None

    newer()
    older()

    assert OffsetCheckpoint(disk, "/points").read() == {("a", 0): 2}
