"""kill -9 in the middle of transactions, a few times; `make torture` does it a hundred times, and with real clients."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.brokers import Broker
from torture.transactions import SETTINGS, torture_transactions
from torture.transactors import Outcome, Story, faults

ROUNDS = 4


@pytest.mark.parametrize("seed", [1, 2])
def test_every_transaction_is_whole_or_not_there(
    tmp_path: Path, make_broker: Callable[..., Broker], seed: int
) -> None:
    # A KRaft broker that was killed is not let in again before its old session ends.
    session = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "200"}
    broker = make_broker(tmp_path / "broker", settings={**SETTINGS, **session})
    try:
        report = torture_transactions(
            broker,
            rounds=ROUNDS,
            seed=seed,
            clients=[],
            is_damaging=broker.name != "kafka",  # which does not start over all of what is damaged here
            say=print,
        )
    finally:
        broker.close()
    assert report.faults == []
    assert report.kills >= ROUNDS
    assert report.ended > 0
    broker.check_output()


def story(outcome: Outcome) -> Story:
    """A transaction that was committed, and one of two partitions with the given outcome."""
    return Story(
        "t",
        values={1: {(0, b"t:1:0:0")}, 2: {(0, b"t:2:0:0"), (0, b"t:2:0:1"), (1, b"t:2:1:0")}},
        outcomes={1: Outcome.COMMITTED, 2: outcome},
    )


ONE = b"t:1:0:0"
WHOLE = {0: [ONE, b"t:2:0:0", b"t:2:0:1"], 1: [b"t:2:1:0"]}
NOTHING: dict[int, list[bytes]] = {0: [ONE], 1: []}
HALF = {0: [ONE, b"t:2:0:0", b"t:2:0:1"], 1: []}


@pytest.mark.parametrize(
    ("outcome", "found", "words"),
    [
        (Outcome.COMMITTED, WHOLE, []),
        (Outcome.ABORTED, NOTHING, []),
        (Outcome.UNKNOWN, WHOLE, []),
        (Outcome.UNKNOWN, NOTHING, []),
        (Outcome.COMMITTED, NOTHING, ["transaction 2 was committed, but 0 of 3 records are there"]),
        (Outcome.COMMITTED, HALF, ["transaction 2 was committed, but 2 of 3 records are there"]),
        (Outcome.ABORTED, HALF, ["transaction 2 was rolled back, but 2 of 3 records are there"]),
        (Outcome.ABORTED, WHOLE, ["transaction 2 was rolled back, but 3 of 3 records are there"]),
        (Outcome.UNKNOWN, HALF, ["transaction 2 was answered by nobody, but 2 of 3 records are there"]),
        (Outcome.COMMITTED, {**WHOLE, 1: [b"t:2:1:0"] * 2}, ["b't:2:1:0' comes twice or too late"]),
        (Outcome.COMMITTED, {**WHOLE, 0: [*WHOLE[0][1:], ONE]}, ["b't:1:0:0' comes twice or too late"]),
    ],
    ids=["committed", "rolled back", "unanswered, committed", "unanswered, rolled back", "lost", "torn",
         "shown in part", "shown", "torn in doubt", "twice", "out of order"],
)  # fmt: skip
def test_the_check_finds(outcome: Outcome, found: dict[int, list[bytes]], words: list[str]) -> None:
    said = faults(story(outcome), found)
    assert len(said) == len(words)
    for word, fault in zip(words, said, strict=True):
        assert word in fault
