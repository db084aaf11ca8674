"""Settings that make nodes compact the logs of their coordinators all the time."""

from __future__ import annotations

import random

EAGER_CLEANER = {
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0",
    "log.cleaner.max.compaction.lag.ms": "300",  # segments of compacted topics are rolled that often too
    # Longer than a replica is away, and clocks are wrong: else it never sees a tombstone, and keeps the deleted key.
    "log.cleaner.delete.retention.ms": "200000",
    "log.segment.delete.delay.ms": "100",
}


def draw_cleaner_settings(seed: int) -> dict[str, str]:
    """Half of all seeds compact. They draw nothing from other generators, so other seeds stay what they were."""
    return EAGER_CLEANER if random.Random(f"{seed}/cleaner").random() < 0.5 else {}
