"""The table of all APIs: key, versions, and where their messages are declared.

The union of Apache Kafka 3.9 and 4.3, with two exceptions. Unstable versions are left out, except InitProducerId v6,
which two-phase commit needs. LeaderAndIsr, StopReplica, UpdateMetadata and ControlledShutdown (keys 4 to 7) are left
out, because only brokers with ZooKeeper sent them.

The version numbers are in the declarations too. They are repeated here so that listing them does not import ninety
modules; a test compares the two. The broker decides which APIs it serves.
"""

from __future__ import annotations

import enum
import importlib
from dataclasses import dataclass
from typing import Any, Self

from penstock.protocol.declare import NEVER

__all__ = ["Api", "ApiKey", "api"]


class ApiKey(enum.IntEnum):
    """The API key of a request. Each row: key, first version, last version, first flexible version."""

    first_version: int
    last_version: int
    flexible_version: int

    def __new__(cls, key: int, first_version: int, last_version: int, flexible_version: int = NEVER) -> Self:
        member = int.__new__(cls, key)
        member._value_ = key
        member.first_version = first_version
        member.last_version = last_version
        member.flexible_version = flexible_version
        return member

    PRODUCE = 0, 0, 13, 9
    FETCH = 1, 0, 18, 12
    LIST_OFFSETS = 2, 0, 11, 6
    METADATA = 3, 0, 13, 9
    OFFSET_COMMIT = 8, 0, 10, 8
    OFFSET_FETCH = 9, 0, 10, 6
    FIND_COORDINATOR = 10, 0, 6, 3
    JOIN_GROUP = 11, 0, 9, 6
    HEARTBEAT = 12, 0, 4, 4
    LEAVE_GROUP = 13, 0, 5, 4
    SYNC_GROUP = 14, 0, 5, 4
    DESCRIBE_GROUPS = 15, 0, 6, 5
    LIST_GROUPS = 16, 0, 5, 3
    SASL_HANDSHAKE = 17, 0, 1
    API_VERSIONS = 18, 0, 4, 3
    CREATE_TOPICS = 19, 0, 7, 5
    DELETE_TOPICS = 20, 0, 6, 4
    DELETE_RECORDS = 21, 0, 2, 2
    INIT_PRODUCER_ID = 22, 0, 6, 2
    OFFSET_FOR_LEADER_EPOCH = 23, 0, 4, 4
    ADD_PARTITIONS_TO_TXN = 24, 0, 5, 3
    ADD_OFFSETS_TO_TXN = 25, 0, 4, 3
    END_TXN = 26, 0, 5, 3
    WRITE_TXN_MARKERS = 27, 0, 2, 1
    TXN_OFFSET_COMMIT = 28, 0, 5, 3
    DESCRIBE_ACLS = 29, 0, 3, 2
    CREATE_ACLS = 30, 0, 3, 2
    DELETE_ACLS = 31, 0, 3, 2
    DESCRIBE_CONFIGS = 32, 0, 4, 4
    ALTER_CONFIGS = 33, 0, 2, 2
    ALTER_REPLICA_LOG_DIRS = 34, 0, 2, 2
    DESCRIBE_LOG_DIRS = 35, 0, 5, 2
    SASL_AUTHENTICATE = 36, 0, 2, 2
    CREATE_PARTITIONS = 37, 0, 3, 2
    CREATE_DELEGATION_TOKEN = 38, 0, 3, 2
    RENEW_DELEGATION_TOKEN = 39, 0, 2, 2
    EXPIRE_DELEGATION_TOKEN = 40, 0, 2, 2
    DESCRIBE_DELEGATION_TOKEN = 41, 0, 3, 2
    DELETE_GROUPS = 42, 0, 2, 2
    ELECT_LEADERS = 43, 0, 2, 2
    INCREMENTAL_ALTER_CONFIGS = 44, 0, 1, 1
    ALTER_PARTITION_REASSIGNMENTS = 45, 0, 1, 0
    LIST_PARTITION_REASSIGNMENTS = 46, 0, 0, 0
    OFFSET_DELETE = 47, 0, 0
    DESCRIBE_CLIENT_QUOTAS = 48, 0, 1, 1
    ALTER_CLIENT_QUOTAS = 49, 0, 1, 1
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50, 0, 0, 0
    ALTER_USER_SCRAM_CREDENTIALS = 51, 0, 0, 0
    VOTE = 52, 0, 2, 0
    BEGIN_QUORUM_EPOCH = 53, 0, 1, 1
    END_QUORUM_EPOCH = 54, 0, 1, 1
    DESCRIBE_QUORUM = 55, 0, 2, 0
    ALTER_PARTITION = 56, 0, 3, 0
    UPDATE_FEATURES = 57, 0, 2, 0
    ENVELOPE = 58, 0, 0, 0
    FETCH_SNAPSHOT = 59, 0, 1, 0
    DESCRIBE_CLUSTER = 60, 0, 2, 0
    DESCRIBE_PRODUCERS = 61, 0, 0, 0
    BROKER_REGISTRATION = 62, 0, 4, 0
    BROKER_HEARTBEAT = 63, 0, 2, 0
    UNREGISTER_BROKER = 64, 0, 0, 0
    DESCRIBE_TRANSACTIONS = 65, 0, 0, 0
    LIST_TRANSACTIONS = 66, 0, 2, 0
    ALLOCATE_PRODUCER_IDS = 67, 0, 0, 0
    CONSUMER_GROUP_HEARTBEAT = 68, 0, 1, 0
    CONSUMER_GROUP_DESCRIBE = 69, 0, 1, 0
    CONTROLLER_REGISTRATION = 70, 0, 0, 0
    GET_TELEMETRY_SUBSCRIPTIONS = 71, 0, 0, 0
    PUSH_TELEMETRY = 72, 0, 0, 0
    ASSIGN_REPLICAS_TO_DIRS = 73, 0, 0, 0
    LIST_CONFIG_RESOURCES = 74, 0, 1, 0
    DESCRIBE_TOPIC_PARTITIONS = 75, 0, 0, 0
    SHARE_GROUP_HEARTBEAT = 76, 1, 1, 1
    SHARE_GROUP_DESCRIBE = 77, 1, 1, 1
    SHARE_FETCH = 78, 1, 2, 1
    SHARE_ACKNOWLEDGE = 79, 1, 2, 1
    ADD_RAFT_VOTER = 80, 0, 1, 0
    REMOVE_RAFT_VOTER = 81, 0, 0, 0
    UPDATE_RAFT_VOTER = 82, 0, 0, 0
    INITIALIZE_SHARE_GROUP_STATE = 83, 0, 0, 0
    READ_SHARE_GROUP_STATE = 84, 0, 0, 0
    WRITE_SHARE_GROUP_STATE = 85, 0, 1, 0
    DELETE_SHARE_GROUP_STATE = 86, 0, 0, 0
    READ_SHARE_GROUP_STATE_SUMMARY = 87, 0, 1, 0
    STREAMS_GROUP_HEARTBEAT = 88, 0, 0, 0
    STREAMS_GROUP_DESCRIBE = 89, 0, 0, 0
    DESCRIBE_SHARE_GROUP_OFFSETS = 90, 0, 1, 0
    ALTER_SHARE_GROUP_OFFSETS = 91, 0, 0, 0
    DELETE_SHARE_GROUP_OFFSETS = 92, 0, 0, 0


@dataclass(frozen=True, slots=True)
class Api:
    """Key, name and versions of an API."""

    key: ApiKey
    name: str
    """Kafka's name: `DescribeTopicPartitions`."""
    first_version: int
    last_version: int
    flexible_version: int
    """The first version with compact lengths and tagged fields, or `declare.NEVER`."""

    def request_class(self) -> type[Any]:
        """The declaration of the request; imports its module."""
        return self._message_class("Request")

    def response_class(self) -> type[Any]:
        return self._message_class("Response")

    def request_header_version(self, version: int) -> int:
        return 2 if version >= self.flexible_version else 1

    def response_header_version(self, version: int) -> int:
        # A client that does not know the broker's versions yet must be able to read this response (KIP-511).
        if self.key is ApiKey.API_VERSIONS:
            return 0
        return 1 if version >= self.flexible_version else 0

    def _message_class(self, suffix: str) -> type[Any]:
        module = importlib.import_module(f"penstock.protocol.messages.{self.key.name.lower()}")
        message_class: type[Any] = getattr(module, self.name + suffix)
        return message_class


def api(key: int) -> Api:
    """The API with this key; KeyError for a key that Kafka does not define."""
    return _APIS[key]


_APIS: dict[int, Api] = {
    int(key): Api(
        key,
        key.name.title().replace("_", ""),
        key.first_version,
        key.last_version,
        key.flexible_version,
    )
    for key in ApiKey
}
