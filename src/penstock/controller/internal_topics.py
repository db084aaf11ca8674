"""The internal topics of coordinators: their partitions, replicas and settings.

With the broker's defaults, such a topic would lose state by retention, or could not be compacted. If its replication
factor is not set, it is the number of brokers, up to the default: groups must work on a single node without
configuration, and a cluster must not lose them with one node.
"""

from __future__ import annotations

from penstock.config.broker import BrokerSettings
from penstock.metadata.names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from penstock.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig

# For each topic: the prefix of its broker settings, and its fixed settings.
_TOPICS: dict[str, tuple[str, dict[str, str]]] = {
    OFFSETS_TOPIC: ("offsets.topic", {"cleanup.policy": "compact", "compression.type": "producer"}),
    TRANSACTIONS_TOPIC: (
        "transaction.state.log",
        {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "unclean.leader.election.enable": "false",
        },
    ),
    SHARE_STATE_TOPIC: (
        "share.coordinator.state.topic",
        {"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1"},
    ),
}


def internal_topic(name: str, settings: BrokerSettings, *, broker_count: int) -> CreatableTopic | None:
    """The definition of an internal topic; None for any other name."""
    if name not in _TOPICS:
        return None
    prefix, fixed = _TOPICS[name]
    configs = {**fixed, "segment.bytes": str(settings.get(f"{prefix}.segment.bytes"))}
    replication_factor: int = settings.get(f"{prefix}.replication.factor")
    if not settings.is_set(f"{prefix}.replication.factor"):
        replication_factor = max(1, min(replication_factor, broker_count))
    if name != OFFSETS_TOPIC:
        min_isr: int = settings.get(f"{prefix}.min.isr")
        if not settings.is_set(f"{prefix}.min.isr"):
            min_isr = min(min_isr, replication_factor)
        configs["min.insync.replicas"] = str(min_isr)
    return CreatableTopic(
        name=name,
        num_partitions=settings.get(f"{prefix}.num.partitions"),
        replication_factor=replication_factor,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
