"""kill -9 under load, a few times; `make torture` does it a hundred times."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.brokers import Broker
from torture.check import faults
from torture.run import SETTINGS, torture
from torture.writers import Ledger

ROUNDS = 4


@pytest.mark.parametrize("seed", [1, 2])
def test_no_acknowledged_record_is_lost_or_duplicated(
    tmp_path: Path, make_broker: Callable[..., Broker], seed: int
) -> None:
    broker = make_broker(tmp_path / "broker", settings=SETTINGS)
    try:
        report = torture(broker, rounds=ROUNDS, seed=seed, say=print)
    finally:
        broker.close()
    assert report.faults == []
    assert report.kills >= ROUNDS
    assert 0 < report.acknowledged <= report.found
    broker.check_output()


def ledger(*values: bytes, sent: int = 3) -> Ledger:
    return Ledger(0, sent=sent, acknowledged=dict(enumerate(values)))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([(0, b"w:0"), (1, b"w:1"), (2, b"w:2")], []),
        ([(0, b"w:0"), (1, b"w:1")], ["offset 2 was acknowledged for b'w:2', found None", "1 are missing"]),
        ([(0, b"w:0"), (1, b"w:1"), (2, b"w:2"), (3, b"w:2")], ["record 2 comes after 2"]),
        ([(0, b"w:1"), (1, b"w:0"), (2, b"w:2")], ["offset 0 was acknowledged", "record 0 comes after 1"]),
        ([(0, b"w:0"), (2, b"w:1"), (3, b"w:2")], ["2 is where 1 should be"]),
    ],
    ids=["all well", "lost", "twice", "out of order", "gap"],
)
def test_the_check_finds(found: list[tuple[int, bytes]], expected: list[str]) -> None:
    messages = faults(found, ledger(b"w:0", b"w:1", b"w:2"), is_complete=True)
    for text in expected:
        assert any(text in fault for fault in messages)
    assert bool(messages) == bool(expected)
