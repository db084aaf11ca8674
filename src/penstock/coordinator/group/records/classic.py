"""The record of a classic group: a generation, its members and their assignments."""

from __future__ import annotations

from penstock.protocol.declare import field, record, struct
from penstock.protocol.types import Int32, Int64

WRITTEN_VERSION = 3
"""The version that Kafka 4.3 writes. Version 4 only makes room for tagged fields (KIP-915)."""


@record(key=2, versions=(0, 0))
class GroupMetadataKey:
    group: str


@struct
class MemberMetadata:
    member_id: str
    group_instance_id: str | None = field(since=3, default=None, ignorable=True)
    client_id: str
    client_host: str
    rebalance_timeout: Int32 = field(since=1, default=-1, ignorable=True)  # -1: as session_timeout
    session_timeout: Int32
    subscription: bytes  # the member's metadata for the selected protocol
    assignment: bytes


@record(key=2, versions=(0, 4), flexible=4)
class GroupMetadataValue:
    """v1 adds rebalance_timeout, v2 current_state_timestamp, v3 group_instance_id (KIP-345); v4 is
    flexible."""

    protocol_type: str  # empty: no member has joined yet
    generation: Int32
    protocol: str | None
    leader: str | None
    current_state_timestamp: Int64 = field(since=2, default=-1, ignorable=True)
    members: list[MemberMetadata]
