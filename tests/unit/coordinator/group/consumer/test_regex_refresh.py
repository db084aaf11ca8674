"""When regular expressions are resolved."""

from __future__ import annotations

from harness.consumer_groups import ConsumerHarness

HOUR_MS = 3_600_000


def test_a_clock_that_was_set_back_does_not_delay_the_resolution_of_a_regex() -> None:
    before = ConsumerHarness()
    before.create_topic("water", 1)
    before.create_topic("waste", 1)
    before.advance(HOUR_MS)
    before.heartbeat("one", regex="water")
    before.advance(0)
    harness = before.reloaded()
    harness.clock_ms -= HOUR_MS
    harness.heartbeat("one", 1)  # its session must not expire

    harness.heartbeat("two", regex="waste")
    harness.advance(0)

    assert {regex: set(resolved.topics) for regex, resolved in harness.group.resolved.items()} == {
        "water": {"water"},
        "waste": {"waste"},
    }
