"""A note for those who ask for log compaction, until brokers have it. Kafka's own scripts do not print it."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.cli.output import say

CLEANUP_POLICY = "cleanup.policy"


def note_compaction(settings: Mapping[str, str]) -> None:
    """On stderr, if these settings of a topic ask for compaction."""
    if "compact" in settings.get(CLEANUP_POLICY, "").split(","):
        say(
            "note: Penstock brokers do not compact logs yet: cleanup.policy=compact is accepted, but older records of "
            "a key are kept, and the log grows."
        )
