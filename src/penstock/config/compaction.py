"""The warning for `cleanup.policy=compact`: it is accepted, but log compaction is not implemented yet."""

from __future__ import annotations

CLEANUP_POLICY = "cleanup.policy"
NO_COMPACTION = "log compaction is not implemented yet: older records of a key are kept, and the log grows"


def asks_for_compaction(policy: str) -> bool:
    """Whether a value of `cleanup.policy` includes `compact`."""
    return "compact" in [each.strip() for each in policy.split(",")]
