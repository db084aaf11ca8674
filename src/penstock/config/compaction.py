"""Log compaction, which brokers do not have yet: `cleanup.policy=compact` is accepted, and users are warned."""

from __future__ import annotations

CLEANUP_POLICY = "cleanup.policy"
NO_COMPACTION = "log compaction is not implemented yet: older records of a key are kept, and the log grows"


def asks_for_compaction(policy: str) -> bool:
    """Whether a value of `cleanup.policy` includes `compact`."""
    return "compact" in [each.strip() for each in policy.split(",")]
