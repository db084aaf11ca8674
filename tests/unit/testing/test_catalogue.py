"""Promises about topics: certain after an answer, open after a lost one, and settled by a look."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.protocol.types import Uuid
from penstock.testing.catalogue import Catalogue, Topic
from penstock.testing.simulation import BrokenPromise

ID, OTHER_ID = Uuid(bytes(range(16))), Uuid(bytes(range(1, 17)))
MADE = Topic(2, (("flush.messages", "1"),))
THERE = replace(MADE, topic_id=ID)


def test_what_was_acknowledged_must_be_there() -> None:
    catalogue = Catalogue()
    catalogue.changed("t", lambda _: THERE)

    catalogue.found("t", THERE)
    for wrong in (None, replace(THERE, topic_id=OTHER_ID), replace(THERE, partition_count=3)):
        with pytest.raises(BrokenPromise, match="topic t is"):
            catalogue.found("t", wrong)


def test_what_nobody_made_must_not_be_there() -> None:
    with pytest.raises(BrokenPromise, match="must be not there"):
        Catalogue().found("t", THERE)


@pytest.mark.parametrize("found", [None, THERE])
def test_after_a_lost_answer_either_is_fine_until_somebody_looks(found: Topic | None) -> None:
    catalogue = Catalogue()
    catalogue.may_have_changed("t", lambda _: MADE)
    assert not catalogue.is_certain("t")

    catalogue.found("t", found)

    assert catalogue.present("t") == found
    with pytest.raises(BrokenPromise):
        catalogue.found("t", None if found else THERE)


def test_lost_answers_add_up() -> None:
    catalogue = Catalogue()
    catalogue.changed("t", lambda _: THERE)
    for value in ("1", "2"):
        catalogue.may_have_changed("t", lambda world, v=value: world and world.with_config("segment.ms", v))  # type: ignore[misc]

    assert catalogue.worlds["t"] == [
        THERE,
        THERE.with_config("segment.ms", "1"),
        THERE.with_config("segment.ms", "2"),
    ]


def test_an_id_that_was_seen_stays() -> None:
    catalogue = Catalogue()
    catalogue.may_have_changed("t", lambda _: MADE)
    catalogue.found("t", THERE)

    with pytest.raises(BrokenPromise, match="must be there with id"):
        catalogue.found("t", replace(THERE, topic_id=OTHER_ID))
