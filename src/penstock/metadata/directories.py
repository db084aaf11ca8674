"""Ids of log directories that name no directory (KIP-858). The first hundred numbers are Kafka's own."""

from __future__ import annotations

from penstock.protocol.types import Uuid

MIGRATING = Uuid(bytes(16))
"""Some directory that was chosen before directories had ids."""

UNASSIGNED = Uuid((1).to_bytes(16, "big"))
"""None yet: the node will choose one and say so."""

LOST = Uuid((2).to_bytes(16, "big"))
"""One that went offline."""

RESERVED_COUNT = 100


def is_reserved(directory_id: Uuid) -> bool:
    return int.from_bytes(directory_id, "big") < RESERVED_COUNT
