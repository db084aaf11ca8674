"""When the topics of regular expressions are looked up."""

from __future__ import annotations

from harness.consumer_groups import ConsumerStage

HOUR_MS = 3_600_000


def test_a_clock_that_was_set_back_does_not_keep_a_new_expression_waiting() -> None:
    before = ConsumerStage()
    before.create_topic("water", 1)
    before.create_topic("waste", 1)
    before.advance(HOUR_MS)
    before.heartbeat("one", regex="water")
    before.advance(0)
    stage = before.reloaded()
    stage.clock_ms -= HOUR_MS
    stage.heartbeat("one", 1)  # its session must not end with the hour

    stage.heartbeat("two", regex="waste")
    stage.advance(0)

    assert {regex: set(resolved.topics) for regex, resolved in stage.group.resolved.items()} == {
        "water": {"water"},
        "waste": {"waste"},
    }
