"""kill -9 during transactions, a few times; `make torture` does it a hundred times, and with real clients."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.brokers import Broker
from torture.transactional_producers import Outcome, ProducerHistory, faults
from torture.transactions import SETTINGS, torture_transactions

ROUNDS = 4


@pytest.mark.parametrize("seed", [1, 2])
def test_every_transaction_is_complete_or_absent(
    tmp_path: Path, make_broker: Callable[..., Broker], seed: int
) -> None:
    # A KRaft broker that was killed registers again only after its old session has expired.
    session = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "200"}
    broker = make_broker(tmp_path / "broker", settings={**SETTINGS, **session})
    try:
        report = torture_transactions(
            broker,
            rounds=ROUNDS,
            seed=seed,
            clients=[],
            is_damaging=broker.name != "kafka",  # Kafka does not recover from all of this damage
            say=print,
        )
    finally:
        broker.close()
    assert report.faults == []
    assert report.kills >= ROUNDS
    assert report.ended > 0
    broker.check_output()


def history(outcome: Outcome) -> ProducerHistory:
    """A committed transaction, and one in two partitions with the given outcome."""
    return ProducerHistory(
        "t",
        values={1: {(0, b"t:1:0:0")}, 2: {(0, b"t:2:0:0"), (0, b"t:2:0:1"), (1, b"t:2:1:0")}},
        outcomes={1: Outcome.COMMITTED, 2: outcome},
    )


ONE = b"t:1:0:0"
WHOLE = {0: [ONE, b"t:2:0:0", b"t:2:0:1"], 1: [b"t:2:1:0"]}
NOTHING: dict[int, list[bytes]] = {0: [ONE], 1: []}
HALF = {0: [ONE, b"t:2:0:0", b"t:2:0:1"], 1: []}


@pytest.mark.parametrize(
    ("outcome", "found", "expected"),
    [
        (Outcome.COMMITTED, WHOLE, []),
        (Outcome.ABORTED, NOTHING, []),
        (Outcome.UNKNOWN, WHOLE, []),
        (Outcome.UNKNOWN, NOTHING, []),
        (Outcome.COMMITTED, NOTHING, ["transaction 2 was committed, but 0 of 3 records are there"]),
        (Outcome.COMMITTED, HALF, ["transaction 2 was committed, but 2 of 3 records are there"]),
        (Outcome.ABORTED, HALF, ["transaction 2 was aborted, but 2 of 3 records are there"]),
        (Outcome.ABORTED, WHOLE, ["transaction 2 was aborted, but 3 of 3 records are there"]),
        (Outcome.UNKNOWN, HALF, ["transaction 2 was not answered, but 2 of 3 records are there"]),
        (Outcome.COMMITTED, {**WHOLE, 1: [b"t:2:1:0"] * 2}, ["b't:2:1:0' is a duplicate or late"]),
        (Outcome.COMMITTED, {**WHOLE, 0: [*WHOLE[0][1:], ONE]}, ["b't:1:0:0' is a duplicate or late"]),
    ],
    ids=["committed", "aborted", "unanswered, committed", "unanswered, aborted", "lost", "torn",
         "partly visible", "shown", "torn, outcome unknown", "twice", "out of order"],
)  # fmt: skip
def test_the_check_finds(outcome: Outcome, found: dict[int, list[bytes]], expected: list[str]) -> None:
    messages = faults(history(outcome), found)
    assert len(messages) == len(expected)
    for text, fault in zip(expected, messages, strict=True):
        assert text in fault
