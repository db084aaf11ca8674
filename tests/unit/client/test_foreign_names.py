"""Names that other clients have for our settings."""

from __future__ import annotations

from penstock.client.foreign_names import ELSEWHERE, RENAMED, lesson
from penstock.config.tables.clients import ADMIN, CONSUMER, PRODUCER

KNOWN = {*PRODUCER, *CONSUMER, *ADMIN}


def test_a_lesson_names_a_setting_that_exists() -> None:
    assert set(RENAMED.values()) <= KNOWN


def test_no_name_of_ours_counts_as_foreign() -> None:
    assert KNOWN.isdisjoint({*RENAMED, *ELSEWHERE})


def test_a_name_that_nobody_has_teaches_nothing() -> None:
    assert lesson("no.such.name") is None
    assert lesson("loop") == "a client of penstock.aio uses the loop that runs"
