"""A note for topics with log compaction, until brokers support it. Kafka's own scripts do not print it."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.cli.output import say
from penstock.config.compaction import CLEANUP_POLICY, NO_COMPACTION, asks_for_compaction


def note_compaction(settings: Mapping[str, str]) -> None:
    """Print the note to stderr if this topic config asks for compaction."""
    policy = settings.get(CLEANUP_POLICY, "")
    if asks_for_compaction(policy):
        say(f"note: the brokers accept {CLEANUP_POLICY}={policy}, but {NO_COMPACTION}.")
