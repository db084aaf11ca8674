"""The check of pipeline output finds everything that transactions must prevent."""

from __future__ import annotations

import pytest

from compat.transactions.outcome import faults

WRITTEN = {(0, 0): 10, (0, 1): 11, (0, 2): 12, (1, 0): 13}
A, B, C, D = b"0:0:10", b"0:1:11", b"0:2:12", b"1:0:13"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({0: [A, B, C], 1: [D]}, []),
        ({0: [A, C], 1: [D]}, ["1 of 3 are missing: [b'0:1:11']"]),
        ({0: [A, B, C], 1: []}, ["partition 1: 1 of 1 are missing"]),
        ({0: [A, B, B, C], 1: [D]}, ["1 are there twice: [b'0:1:11']"]),
        ({0: [A, B, C, b"0:9:9"], 1: [D]}, ["1 were never written"]),
        ({0: [B, A, C], 1: [D]}, ["out of order at 0"]),
        ({0: [A, B, C, D], 1: []}, ["1 were never written", "1 of 1 are missing"]),
    ],
    ids=["all well", "lost", "lost all", "twice", "strange", "out of order", "astray"],
)
def test_the_check_finds(found: dict[int, list[bytes]], expected: list[str]) -> None:
    messages = faults(WRITTEN, found)
    assert len(messages) == len(expected)
    for text, fault in zip(expected, messages, strict=True):
        assert text in fault
