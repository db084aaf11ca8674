"""Which replica a consumer should read from (KIP-392): one in its own rack, if `replica.selector.class` says so.

Kafka's RackAwareReplicaSelector is known by its Java name. A consumer without a rack, or with a leader in its rack,
reads from the leader.
"""

from __future__ import annotations

from penstock.broker.endpoints import alive_endpoint
from penstock.metadata.image import MetadataImage
from penstock.replication.partition import Partition

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER = -1


def preferred_read_replica(
    partition: Partition, fetch_offset: int, *, rack: str, image: MetadataImage, listener: str
) -> int:
    """The in-sync follower in `rack` that is furthest and has `fetch_offset`, or LEADER."""
    if not rack or _rack_of(image, partition.node_id, listener) == rack:
        return LEADER
    candidates = [
        follower
        for follower in partition.followers
        if follower.node_id in partition.isr
        and follower.start_offset <= fetch_offset <= follower.end_offset
        and _rack_of(image, follower.node_id, listener) == rack
    ]
    if not candidates:
        return LEADER
    return max(candidates, key=lambda each: (each.end_offset, each.caught_up_ms, -each.node_id)).node_id


def _rack_of(image: MetadataImage, node_id: int, listener: str) -> str | None:
    """None also for a broker that this client cannot reach."""
    found = alive_endpoint(image, node_id, listener)
    return None if found is None else found[0].rack
