"""The self-balancer of the controller. These settings are Penstock's own; Kafka has none of them."""

from __future__ import annotations

from penstock.config.declare import (
    CLUSTER_WIDE,
    LOW,
    SECOND_MS,
    Rule,
    at_least,
    boolean,
    integer,
    items,
    long,
)

NODE_IDS = Rule(
    lambda ids: len(set(ids)) == len(ids) and all(each.isdecimal() for each in ids), "distinct node ids"
)

SETTINGS = (
    boolean("penstock.balancer.enable", True, dynamic=CLUSTER_WIDE).means(
        "Let the controller move replicas to a broker that has far fewer than others, such as one that just "
        "joined, and away from drained brokers. Moves are reassignments: they can be listed and cancelled."
    ),
    items("penstock.balancer.drained.brokers", (), NODE_IDS, dynamic=CLUSTER_WIDE).means(
        "Node ids of brokers that will be removed. The balancer moves all replicas away from them, and they "
        "get no new ones."
    ),
    integer("penstock.balancer.moves.max", 5, at_least(1), LOW, dynamic=CLUSTER_WIDE).means(
        "How many partitions may be reassigned at a time. The balancer starts no move while there are as many, "
        "those of other requests included."
    ),
    long("penstock.balancer.interval.ms", 30 * SECOND_MS, at_least(1), LOW).means(
        "How often the controller checks whether a broker has too few replicas. While replicas are being "
        "moved, it checks every second."
    ),
)
