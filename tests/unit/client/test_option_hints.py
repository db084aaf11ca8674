"""Hints for option names of other clients."""

from __future__ import annotations

from penstock.client.option_hints import ELSEWHERE, RENAMED, hint_for
from penstock.config.tables.clients import ADMIN, CONSUMER, PRODUCER

KNOWN = {*PRODUCER, *CONSUMER, *ADMIN}


def test_a_hint_names_an_existing_setting() -> None:
    assert set(RENAMED.values()) <= KNOWN


def test_no_kafka_name_has_a_hint() -> None:
    assert KNOWN.isdisjoint({*RENAMED, *ELSEWHERE})


def test_an_unknown_name_has_no_hint() -> None:
    assert hint_for("no.such.name") is None
    assert hint_for("loop") == "a penstock.aio client uses the running loop"
