"""Names of topics: valid names, internal topics, and collisions.

A name becomes a directory name, so these rules also keep `../x` inside the log directory.
"""

from __future__ import annotations

import re

from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode

METADATA_TOPIC = "__cluster_metadata"
OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})

NAME_LENGTH_MAX = 249  # with a partition number and a suffix, it fits into a file name of 255 bytes
_VALID = re.compile(r"[a-zA-Z0-9._-]+")


def is_internal(name: str) -> bool:
    return name in INTERNAL_TOPICS


def check_topic_name(name: str) -> None:
    """Refuse an invalid topic name."""
    fault = fault_of_topic_name(name)
    if fault is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}")


def fault_of_topic_name(name: str) -> str | None:
    if not name:
        return "it is empty"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"'{name[:40]}...' has {len(name)} characters; the maximum is {NAME_LENGTH_MAX}"
    if not _VALID.fullmatch(name):
        return f"'{name}' has characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def unified_name(name: str) -> str | None:
    """The name in metrics, where '.' and '_' are the same, so two topics must not share it. None if the name contains
    neither and cannot collide."""
    if "." in name or "_" in name:
        return name.replace(".", "_")
    return None
