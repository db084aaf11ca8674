"""The features of a cluster: the supported levels, the levels of a new cluster, and what a level allows.

A record finalizes the level of a feature for the whole cluster (KIP-584). Levels and defaults are those of Apache Kafka
4.3. `metadata.version` decides which versions of records the controller writes (`framing`): a node of an older release
must be able to read them.
"""

from __future__ import annotations

from penstock.metadata.image import FeatureRange, MetadataImage

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
ELIGIBLE_LEADERS = "eligible.leader.replicas.version"

OLDEST_METADATA_VERSION = 19  # 3.7-IV4
ELIGIBLE_LEADERS_METADATA_VERSION = 23  # 4.0-IV1: partitions may have eligible leader replicas (KIP-966)
CORDONED_METADATA_VERSION = 30  # 4.3-IV0: log directories may be cordoned (KIP-1066)
LATEST_METADATA_VERSION = 30  # 4.3-IV0

NEW_RECORDS = (ELIGIBLE_LEADERS_METADATA_VERSION, CORDONED_METADATA_VERSION)
"""The levels of `metadata.version` that added records or fields. A downgrade below one of them could lose them."""

SUPPORTED: dict[str, FeatureRange] = {
    METADATA_VERSION: FeatureRange(OLDEST_METADATA_VERSION, LATEST_METADATA_VERSION),
    ELIGIBLE_LEADERS: FeatureRange(0, 1),
    "group.version": FeatureRange(0, 1),
    KRAFT_VERSION: FeatureRange(0, 1),
    "share.version": FeatureRange(0, 1),
    "streams.version": FeatureRange(0, 1),
    "transaction.version": FeatureRange(0, 2),
}

DEPENDENCIES: dict[tuple[str, int], tuple[str, int]] = {
    (ELIGIBLE_LEADERS, 1): (METADATA_VERSION, ELIGIBLE_LEADERS_METADATA_VERSION),
}
"""A feature at a level needs another feature at a level."""

# For each feature: its level in a new cluster, and the first metadata.version of the release that introduced it.
_DEFAULTS: dict[str, tuple[int, int]] = {
    ELIGIBLE_LEADERS: (1, 26),
    "group.version": (1, 22),
    "share.version": (1, 28),
    "streams.version": (1, 29),
    "transaction.version": (2, 24),
}


def initial_levels(metadata_version: int = LATEST_METADATA_VERSION) -> dict[str, int]:
    """The levels of a new cluster, in the order of the first records of a log: `metadata.version` comes first, because
    the others depend on it."""
    newer = {name: level for name, (level, since) in _DEFAULTS.items() if metadata_version >= since}
    return {METADATA_VERSION: metadata_version, **newer}


INITIAL_LEVELS: dict[str, int] = initial_levels()

KRAFT_LEVEL = 1
"""The quorum stores it in control records, not in the image (KIP-853)."""


def metadata_version(image: MetadataImage) -> int:
    """The finalized level. A log without one is that of a cluster that is just created."""
    return image.features.get(METADATA_VERSION, LATEST_METADATA_VERSION)
