"""Promises about topics: certain after a response, uncertain after a lost one, and certain again after a lookup."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.protocol.types import Uuid
from simulator.checks.catalogue import Catalogue, Topic
from simulator.simulation import BrokenPromise

ID, OTHER_ID = Uuid(bytes(range(16))), Uuid(bytes(range(1, 17)))
MADE = Topic(2, (("flush.messages", "1"),))
THERE = replace(MADE, topic_id=ID)


def test_acknowledged_topics_must_exist() -> None:
    catalogue = Catalogue()
    catalogue.changed("t", lambda _: THERE)

    catalogue.found("t", THERE)
    for wrong in (None, replace(THERE, topic_id=OTHER_ID), replace(THERE, partition_count=3)):
        with pytest.raises(BrokenPromise, match="topic t is"):
            catalogue.found("t", wrong)


def test_topics_never_created_must_not_exist() -> None:
    with pytest.raises(BrokenPromise, match="must be not there"):
        Catalogue().found("t", THERE)


@pytest.mark.parametrize("found", [None, THERE])
def test_after_a_lost_response_both_states_are_allowed_until_a_lookup(found: Topic | None) -> None:
    catalogue = Catalogue()
    catalogue.may_have_changed("t", lambda _: MADE)
    assert not catalogue.is_certain("t")

    catalogue.found("t", found)

    assert catalogue.present("t") == found
    with pytest.raises(BrokenPromise):
        catalogue.found("t", None if found else THERE)


def test_lost_responses_add_possible_states() -> None:
    catalogue = Catalogue()
    catalogue.changed("t", lambda _: THERE)
    for value in ("1", "2"):
        catalogue.may_have_changed("t", lambda state, v=value: state and state.with_config("segment.ms", v))  # type: ignore[misc]

    assert catalogue.states["t"] == [
        THERE,
        THERE.with_config("segment.ms", "1"),
        THERE.with_config("segment.ms", "2"),
    ]


def test_a_topic_id_once_seen_must_not_change() -> None:
    catalogue = Catalogue()
    catalogue.may_have_changed("t", lambda _: MADE)
    catalogue.found("t", THERE)

    with pytest.raises(BrokenPromise, match="must be there with id"):
        catalogue.found("t", replace(THERE, topic_id=OTHER_ID))
