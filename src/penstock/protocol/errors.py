"""Kafka's error codes, and the exceptions of the codecs.

Numbers, names and retriability are those of Apache Kafka 4.3. The texts are our own, for the reader of a client's log.
A handler answers with a code of this table and, if the response has a field for it, with a more specific text.
"""

from __future__ import annotations

import enum
from typing import Final, Self

__all__ = ["ErrorCode", "MalformedMessage", "ProtocolError", "UnencodableValue", "UnsupportedField"]


class ProtocolError(Exception):
    """A message cannot be read or written."""


class MalformedMessage(ProtocolError):
    """The peer's fault: the bytes are not a valid message, and its connection cannot be trusted."""


class UnsupportedField(ProtocolError):
    """Our fault: a field was set that this version does not have."""


class UnencodableValue(ProtocolError):
    """Our fault: a value is too large for its field, or has the wrong type."""


RETRIABLE: Final = True


class ErrorCode(enum.IntEnum):
    """An error code of a response; `is_retriable` says whether trying again may help."""

    message: str
    is_retriable: bool

    def __new__(cls, code: int, message: str, is_retriable: bool = False) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.message = message
        member.is_retriable = is_retriable
        return member

    @classmethod
    def of(cls, code: int) -> ErrorCode:
        """The member for `code`; an unknown code of a newer broker counts as UNKNOWN_SERVER_ERROR."""
        return ERROR_BY_CODE.get(code, cls.UNKNOWN_SERVER_ERROR)

    UNKNOWN_SERVER_ERROR = -1, "the server failed with an unexpected error"
    NONE = 0, "no error"
    OFFSET_OUT_OF_RANGE = 1, "the offset is out of range of the log"
    CORRUPT_MESSAGE = 2, "the records fail their checksum or are otherwise damaged", RETRIABLE
    UNKNOWN_TOPIC_OR_PARTITION = 3, "the topic or partition does not exist on this broker", RETRIABLE
    INVALID_FETCH_SIZE = 4, "the number of bytes to fetch is not valid"
    LEADER_NOT_AVAILABLE = 5, "the partition has no leader at the moment", RETRIABLE
    NOT_LEADER_OR_FOLLOWER = (
        6,
        "this broker does not lead the partition, or holds no replica of it",
        RETRIABLE,
    )
    REQUEST_TIMED_OUT = 7, "the request was not done in the time that it allowed", RETRIABLE
    BROKER_NOT_AVAILABLE = 8, "the broker is unavailable"
    REPLICA_NOT_AVAILABLE = 9, "the replica is unavailable", RETRIABLE
    MESSAGE_TOO_LARGE = 10, "a record batch is larger than max.message.bytes of the topic"
    STALE_CONTROLLER_EPOCH = 11, "a newer controller is active"
    OFFSET_METADATA_TOO_LARGE = 12, "the metadata of a committed offset is too long"
    NETWORK_EXCEPTION = 13, "the connection was closed before the response arrived", RETRIABLE
    COORDINATOR_LOAD_IN_PROGRESS = 14, "the coordinator is still loading its state", RETRIABLE
    COORDINATOR_NOT_AVAILABLE = 15, "the coordinator is not available", RETRIABLE
    NOT_COORDINATOR = 16, "another broker is the coordinator", RETRIABLE
    INVALID_TOPIC_EXCEPTION = 17, "the topic name is not valid, or the topic does not allow this"
    RECORD_LIST_TOO_LARGE = 18, "the records are larger than a segment of the log"
    NOT_ENOUGH_REPLICAS = (
        19,
        "fewer in-sync replicas than min.insync.replicas; nothing was written",
        RETRIABLE,
    )
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        "written, but with fewer in-sync replicas than min.insync.replicas",
        RETRIABLE,
    )
    INVALID_REQUIRED_ACKS = 21, "acks must be 0, 1 or -1"
    ILLEGAL_GENERATION = 22, "the generation is not the current one of the group"
    INCONSISTENT_GROUP_PROTOCOL = 23, "the member has no protocol in common with the rest of the group"
    INVALID_GROUP_ID = 24, "the group id is not valid"
    UNKNOWN_MEMBER_ID = 25, "the coordinator does not know this member of the group"
    INVALID_SESSION_TIMEOUT = 26, "the session timeout is outside the range that the broker allows"
    REBALANCE_IN_PROGRESS = 27, "the group is rebalancing; the member has to join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, "the committed offset and its metadata are too large"
    TOPIC_AUTHORIZATION_FAILED = 29, "not allowed on this topic"
    GROUP_AUTHORIZATION_FAILED = 30, "not allowed on this group"
    CLUSTER_AUTHORIZATION_FAILED = 31, "not allowed on this cluster"
    INVALID_TIMESTAMP = 32, "a timestamp is further from the broker's time than the topic allows"
    UNSUPPORTED_SASL_MECHANISM = 33, "the broker does not offer this SASL mechanism"
    ILLEGAL_SASL_STATE = 34, "this request is not allowed at this point of the authentication"
    UNSUPPORTED_VERSION = 35, "the broker does not support this version of the request"
    TOPIC_ALREADY_EXISTS = 36, "a topic with this name already exists"
    INVALID_PARTITIONS = 37, "the number of partitions is not valid"
    INVALID_REPLICATION_FACTOR = (
        38,
        "the replication factor is not positive, or there are too few brokers for it",
    )
    INVALID_REPLICA_ASSIGNMENT = 39, "the replica assignment is not valid"
    INVALID_CONFIG = 40, "a setting is not valid"
    NOT_CONTROLLER = 41, "another node is the active controller", RETRIABLE
    INVALID_REQUEST = 42, "the request is not valid"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "the message format of the log does not support this"
    POLICY_VIOLATION = 44, "a policy of the cluster forbids this"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "a batch of this producer is missing before this one"
    DUPLICATE_SEQUENCE_NUMBER = 46, "this batch is a duplicate"
    INVALID_PRODUCER_EPOCH = 47, "a newer epoch has fenced the producer"
    INVALID_TXN_STATE = 48, "the state of the transaction does not allow this"
    INVALID_PRODUCER_ID_MAPPING = 49, "the producer id does not belong to the transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, "the transaction timeout is longer than the broker allows"
    CONCURRENT_TRANSACTIONS = 51, "another operation on this transaction is in progress", RETRIABLE
    TRANSACTION_COORDINATOR_FENCED = 52, "a newer transaction coordinator is active"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "not allowed on this transactional id"
    SECURITY_DISABLED = 54, "the broker runs without the security feature that this needs"
    OPERATION_NOT_ATTEMPTED = 55, "not attempted, because another part of the request failed"
    KAFKA_STORAGE_ERROR = 56, "the log directory of this partition is offline", RETRIABLE
    LOG_DIR_NOT_FOUND = 57, "the broker does not have this log directory"
    SASL_AUTHENTICATION_FAILED = 58, "authentication failed"
    UNKNOWN_PRODUCER_ID = 59, "the producer id is unknown to the partition"
    REASSIGNMENT_IN_PROGRESS = 60, "the partition is being reassigned"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "delegation tokens are not enabled"
    DELEGATION_TOKEN_NOT_FOUND = 62, "the delegation token does not exist"
    DELEGATION_TOKEN_OWNER_MISMATCH = (
        63,
        "the principal is neither owner nor renewer of this delegation token",
    )
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        "delegation tokens are not available on this kind of connection",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "not allowed on this delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, "this type of principal is not supported"
    NON_EMPTY_GROUP = 68, "the group is not empty: it has members"
    GROUP_ID_NOT_FOUND = 69, "the group does not exist"
    FETCH_SESSION_ID_NOT_FOUND = 70, "the fetch session does not exist", RETRIABLE
    INVALID_FETCH_SESSION_EPOCH = 71, "the epoch of the fetch session is not the expected one", RETRIABLE
    LISTENER_NOT_FOUND = 72, "the leader has no listener with this name", RETRIABLE
    TOPIC_DELETION_DISABLED = 73, "topic deletion is disabled"
    FENCED_LEADER_EPOCH = 74, "the leader epoch is older than the broker's", RETRIABLE
    UNKNOWN_LEADER_EPOCH = 75, "the leader epoch is newer than the broker's", RETRIABLE
    UNSUPPORTED_COMPRESSION_TYPE = (
        76,
        "this version of the request does not support the compression of the batch",
    )
    STALE_BROKER_EPOCH = 77, "the broker epoch is outdated: the broker has registered again"
    OFFSET_NOT_AVAILABLE = 78, "the new leader does not know its high watermark yet", RETRIABLE
    MEMBER_ID_REQUIRED = 79, "the member must join again with the member id that it was given"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "the preferred leader is not available", RETRIABLE
    GROUP_MAX_SIZE_REACHED = 81, "the group is full"
    FENCED_INSTANCE_ID = 82, "another member with the same group.instance.id has fenced this one"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "no replica that can become leader is available", RETRIABLE
    ELECTION_NOT_NEEDED = 84, "the partition already has the preferred leader", RETRIABLE
    NO_REASSIGNMENT_IN_PROGRESS = 85, "the partition is not being reassigned"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "the group is subscribed to this topic, so its offsets cannot be deleted"
    INVALID_RECORD = 87, "a record is not valid for the topic"
    UNSTABLE_OFFSET_COMMIT = 88, "an open transaction may still change these offsets", RETRIABLE
    THROTTLING_QUOTA_EXCEEDED = 89, "a quota is exhausted; the response says how long to wait", RETRIABLE
    PRODUCER_FENCED = 90, "a newer producer with the same transactional id has fenced this one"
    RESOURCE_NOT_FOUND = 91, "a resource of the request does not exist"
    DUPLICATE_RESOURCE = 92, "the request names a resource twice"
    UNACCEPTABLE_CREDENTIAL = 93, "the credential does not meet the requirements"
    INCONSISTENT_VOTER_SET = 94, "sender and receiver have different voter sets"
    INVALID_UPDATE_VERSION = 95, "the update version is not the expected one"
    FEATURE_UPDATE_FAILED = 96, "the features could not be updated"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "the principal of a forwarded request could not be read"
    SNAPSHOT_NOT_FOUND = 98, "there is no such snapshot"
    POSITION_OUT_OF_RANGE = 99, "the position is not in the snapshot"
    UNKNOWN_TOPIC_ID = 100, "this broker does not know a topic with this id", RETRIABLE
    DUPLICATE_BROKER_REGISTRATION = 101, "another live broker uses this id"
    BROKER_ID_NOT_REGISTERED = 102, "no broker with this id is registered"
    INCONSISTENT_TOPIC_ID = 103, "the topic id differs from that of the log", RETRIABLE
    INCONSISTENT_CLUSTER_ID = 104, "the request is meant for another cluster"
    TRANSACTIONAL_ID_NOT_FOUND = 105, "the transactional id does not exist"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "the fetch session mixes topic names and topic ids", RETRIABLE
    INELIGIBLE_REPLICA = 107, "a replica cannot join the in-sync replicas"
    NEW_LEADER_ELECTED = 108, "the in-sync replicas changed, and so did the leader"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "the offset is in tiered storage"
    FENCED_MEMBER_EPOCH = 110, "the member was fenced; it must give up its partitions and join again"
    UNRELEASED_INSTANCE_ID = 111, "another member still uses this group.instance.id"
    UNSUPPORTED_ASSIGNOR = 112, "the group does not support this assignor"
    STALE_MEMBER_EPOCH = 113, "the member epoch is outdated; the next heartbeat returns the new one"
    MISMATCHED_ENDPOINT_TYPE = 114, "the request was sent to a broker but needs a controller, or the reverse"
    UNSUPPORTED_ENDPOINT_TYPE = 115, "this type of endpoint is not supported"
    UNKNOWN_CONTROLLER_ID = 116, "the controller does not exist"
    UNKNOWN_SUBSCRIPTION_ID = 117, "the telemetry subscription is not, or no longer, valid"
    TELEMETRY_TOO_LARGE = 118, "the telemetry is larger than the broker accepts"
    INVALID_REGISTRATION = 119, "the controller rejected the registration"
    TRANSACTION_ABORTABLE = (
        120,
        "the transaction failed; abort it and continue with the same transactional id",
    )
    INVALID_RECORD_STATE = 121, "the state of the record does not allow this acknowledgement"
    SHARE_SESSION_NOT_FOUND = 122, "the share session does not exist", RETRIABLE
    INVALID_SHARE_SESSION_EPOCH = 123, "the epoch of the share session is not the expected one", RETRIABLE
    FENCED_STATE_EPOCH = 124, "the state epoch of the share group is outdated"
    INVALID_VOTER_KEY = 125, "the voter key is that of another voter"
    DUPLICATE_VOTER = 126, "the voter is already in the voter set"
    VOTER_NOT_FOUND = 127, "the voter is not in the voter set"
    INVALID_REGULAR_EXPRESSION = 128, "the regular expression is not valid"
    REBOOTSTRAP_REQUIRED = 129, "the client's metadata is too old; it must bootstrap again"
    STREAMS_INVALID_TOPOLOGY = 130, "the topology is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "the topology epoch is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, "a newer topology has fenced this one"
    SHARE_SESSION_LIMIT_REACHED = 133, "the broker has reached its limit of share sessions", RETRIABLE


# Decoders look codes up here, in a tenth of the time of `ErrorCode(code)` (bench/micro/protocol.py).
ERROR_BY_CODE: Final = {int(member): member for member in ErrorCode}
