"""The consumer protocol: what members of a classic consumer group exchange.

A subscription travels in the metadata of a JoinGroup request and an assignment in a SyncGroup request, each after an
int16 with its version. Brokers do not read them. A reader decodes an unknown version as the
newest known one: new versions only append fields.

v1 of a subscription adds owned_partitions, for cooperative rebalancing (KIP-429).
v2 adds generation_id, which detects stale ownership (KIP-792).
v3 adds rack_id (KIP-881).
An assignment is the same in all of them.
"""

from __future__ import annotations

from penstock.protocol.declare import field, message, struct
from penstock.protocol.types import Int32


@struct
class TopicPartition:
    topic: str
    partitions: list[Int32]


@message(versions=(0, 3))
class ConsumerProtocolSubscription:
    topics: list[str]
    user_data: bytes | None = None
    owned_partitions: list[TopicPartition] = field(since=1, default=[], ignorable=True)
    generation_id: Int32 = field(since=2, default=-1, ignorable=True)
    rack_id: str | None = field(since=3, default=None, ignorable=True)


@message(versions=(0, 3))
class ConsumerProtocolAssignment:
    assigned_partitions: list[TopicPartition]
    user_data: bytes | None = None
