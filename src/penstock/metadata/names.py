"""Names of topics: which are valid, which belong to Kafka itself, and which would collide.

A name becomes a folder, so these rules are also what keeps `../x` inside the data folder.
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

NAME_LENGTH_MAX = 249  # with a partition number and a suffix it still fits a file name of 255 bytes
_VALID = re.compile(r"[a-zA-Z0-9._-]+")


def is_internal(name: str) -> bool:
    return name in INTERNAL_TOPICS


def check_topic_name(name: str) -> None:
    """Refuse a name that no topic can have."""
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
    """What a metric would be called: '.' and '_' look alike there, so two topics must not share it. None
    where a name has neither and so can not collide."""
    if "." in name or "_" in name:
        return name.replace(".", "_")
    return None
