"""Reserved log directory ids (KIP-858). Kafka reserves the first hundred."""

from __future__ import annotations

from collections.abc import Collection

from penstock.protocol.types import Uuid

MIGRATING = Uuid(bytes(16))
"""The replica was placed before directories had ids."""

UNASSIGNED = Uuid((1).to_bytes(16, "big"))
"""The broker has not chosen a directory yet."""

LOST = Uuid((2).to_bytes(16, "big"))
"""The directory is offline."""

UNKNOWN = (UNASSIGNED, MIGRATING)
"""The controller does not know the directory."""

RESERVED_COUNT = 100


def is_reserved(directory_id: Uuid) -> bool:
    return int.from_bytes(directory_id, "big") < RESERVED_COUNT


def is_online(directory_id: Uuid, online: Collection[Uuid]) -> bool:
    """Whether a replica in this directory is available on a broker that registered with the directories `online`.
    Registrations older than KIP-858 have no directories."""
    if directory_id in UNKNOWN:
        return True
    return directory_id != LOST and (not online or directory_id in online)
