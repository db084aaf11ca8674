"""The check of a transactional id: which clients may be fenced, and which must be."""

from __future__ import annotations

import pytest

from simulator.simulation import BrokenPromise
from simulator.transactions.identity import UNDER_WAY_S, Attempt, Identity

PRODUCER_ID = 7


@pytest.fixture
def identity() -> Identity:
    return Identity("payments")


def grant(identity: Identity, who: str, epoch: int, *, at: float) -> Attempt:
    attempt = identity.asked(who, now=at)
    identity.granted(attempt, PRODUCER_ID, epoch, now=at + 1)
    return attempt


def test_the_only_client_may_not_be_fenced(identity: Identity) -> None:
    grant(identity, "earlier", 0, at=0)
    present = grant(identity, "present", 1, at=10)

    assert not identity.may_be_fenced(present)
    identity.check_accepted(present, "a commit", sent_at=100)


def test_a_client_may_be_fenced_as_soon_as_its_successor_sends_a_request(identity: Identity) -> None:
    old = grant(identity, "old", 0, at=0)
    identity.asked("new", now=10)

    assert identity.may_be_fenced(old)
    identity.check_accepted(old, "a commit", sent_at=11)


def test_a_zombie_is_rejected_once_its_successor_has_an_epoch(identity: Identity) -> None:
    old = grant(identity, "old", 0, at=0)
    grant(identity, "new", 1, at=10)

    identity.check_accepted(old, "a commit", sent_at=10.5)
    with pytest.raises(BrokenPromise, match=r"a commit of old .* was accepted, though new owns payments"):
        identity.check_accepted(old, "a commit", sent_at=12)


def test_an_unanswered_attempt_may_take_effect_later_but_not_much(identity: Identity) -> None:
    attempt = identity.asked("lost", now=0)
    identity.given_up(attempt, now=1)

    assert identity.may_be_fenced(grant(identity, "soon", 0, at=2))
    assert not identity.may_be_fenced(grant(identity, "late", 1, at=1 + UNDER_WAY_S + 0.1))


def test_epochs_only_rise(identity: Identity) -> None:
    grant(identity, "one", 5, at=0)
    identity.epoch_received(PRODUCER_ID, 6)

    with pytest.raises(BrokenPromise, match="epoch 6 as payments, but epoch 6 was assigned already"):
        grant(identity, "two", 6, at=10)
    grant(identity, "three", 7, at=20)
