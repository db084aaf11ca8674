"""The check of committed offsets: an acknowledged or fetched offset never goes back."""

from __future__ import annotations

import pytest

from penstock.protocol.types import Uuid
from simulator.groups.offsets import Commit, CommittedOffsets
from simulator.groups.ownership import Partition
from simulator.simulation import BrokenPromise

PARTITION: Partition = (Uuid(bytes(16)), 0)


@pytest.fixture
def offsets() -> CommittedOffsets:
    return CommittedOffsets("readers")


def commit(offsets: CommittedOffsets, offset: int, *, sent_at: float, done_at: float | None = None) -> Commit:
    """Acknowledged if `done_at` is given, otherwise in flight."""
    made = offsets.sent(PARTITION, offset, f"note {offset}", now=sent_at)
    if done_at is not None:
        offsets.acknowledged(made, now=done_at)
    return made


def find(offsets: CommittedOffsets, offset: int, *, asked_at: float) -> None:
    note = None if offset < 0 else f"note {offset}"
    offsets.found(PARTITION, offset, note, asked_at=asked_at, now=asked_at + 1)


def test_the_last_acknowledged_offset_is_returned(offsets: CommittedOffsets) -> None:
    commit(offsets, 1, sent_at=0, done_at=1)
    commit(offsets, 2, sent_at=2, done_at=3)

    find(offsets, 2, asked_at=4)
    with pytest.raises(BrokenPromise, match=r"1 \(note 1\) was returned, but 2 \(note 2\) was acknowledged"):
        find(offsets, 1, asked_at=4)
    with pytest.raises(BrokenPromise, match="there is no offset"):
        find(offsets, -1, asked_at=4)


def test_an_older_offset_may_be_returned_while_the_next_is_not_acknowledged(
    offsets: CommittedOffsets,
) -> None:
    commit(offsets, 1, sent_at=0, done_at=1)
    commit(offsets, 2, sent_at=2)

    find(offsets, 1, asked_at=4)


def test_an_unanswered_commit_counts_once_it_was_fetched(offsets: CommittedOffsets) -> None:
    commit(offsets, 1, sent_at=0, done_at=1)
    commit(offsets, 2, sent_at=2)

    find(offsets, 2, asked_at=4)
    with pytest.raises(BrokenPromise):
        find(offsets, 1, asked_at=6)


def test_either_of_two_concurrent_commits_may_be_the_last(offsets: CommittedOffsets) -> None:
    commit(offsets, 1, sent_at=0, done_at=3)
    commit(offsets, 2, sent_at=1, done_at=2)

    find(offsets, 1, asked_at=4)


def test_commits_of_one_connection_are_made_in_order(offsets: CommittedOffsets) -> None:
    for number in (1, 2):
        made = offsets.sent(
            PARTITION, number, f"note {number}", now=0, connection="connection", number=number
        )
        offsets.acknowledged(made, now=1)

    with pytest.raises(BrokenPromise):
        find(offsets, 1, asked_at=2)


def test_a_commit_is_not_made_long_after_the_client_gave_up(offsets: CommittedOffsets) -> None:
    lost = commit(offsets, 1, sent_at=0)
    offsets.given_up(lost, now=1)
    commit(offsets, 2, sent_at=1.5, done_at=1.8)
    find(offsets, 1, asked_at=1.9)
    commit(offsets, 3, sent_at=5, done_at=6)

    with pytest.raises(BrokenPromise):
        find(offsets, 1, asked_at=7)


def test_a_rejected_commit_is_never_seen(offsets: CommittedOffsets) -> None:
    refused = commit(offsets, 1, sent_at=0)
    offsets.refused(PARTITION, refused)

    find(offsets, -1, asked_at=2)
    with pytest.raises(BrokenPromise, match="was never committed"):
        find(offsets, 1, asked_at=4)


def test_a_power_cut_may_take_the_last_commits_of_a_log_that_is_not_flushed(
    offsets: CommittedOffsets,
) -> None:
    commit(offsets, 1, sent_at=0, done_at=1)
    late = commit(offsets, 2, sent_at=2)
    offsets.power_lost(now=3)
    offsets.acknowledged(late, now=3.1)

    find(offsets, -1, asked_at=4)
    find(offsets, 1, asked_at=5)
    with pytest.raises(BrokenPromise, match="there is no offset"):
        find(offsets, -1, asked_at=7)
