"""The features of a cluster: which levels this software supports, and which a new cluster starts with.

A feature's level is finalised for the whole cluster by a record, and says what nodes may write and clients
may expect (KIP-584). Levels and defaults are those of Apache Kafka 4.3. `metadata.version` is supported at
one level only: this software writes records of 4.3 and no older ones.
"""

from __future__ import annotations

from penstock.metadata.image import FeatureRange

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
ELIGIBLE_LEADERS = "eligible.leader.replicas.version"

SUPPORTED: dict[str, FeatureRange] = {
    METADATA_VERSION: FeatureRange(30, 30),  # 4.3-IV0
    ELIGIBLE_LEADERS: FeatureRange(0, 1),
    "group.version": FeatureRange(0, 1),
    KRAFT_VERSION: FeatureRange(0, 1),
    "share.version": FeatureRange(0, 1),
    "streams.version": FeatureRange(0, 1),
    "transaction.version": FeatureRange(0, 2),
}

INITIAL_LEVELS: dict[str, int] = {
    METADATA_VERSION: 30,
    ELIGIBLE_LEADERS: 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
"""In the order of the first records of a log: `metadata.version` says how to read the rest."""

KRAFT_LEVEL = 1
"""Kept by the quorum in control records of its own, and not in the image (KIP-853)."""
