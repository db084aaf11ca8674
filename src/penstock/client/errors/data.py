"""Errors of brokers about topics, partitions and records."""

from __future__ import annotations

from penstock.client.errors.base import BrokerError, StaleMetadata
from penstock.protocol.errors import ErrorCode

__all__ = [
    "CorruptMessage",
    "ElectionNotNeeded",
    "EligibleLeadersNotAvailable",
    "FencedLeaderEpoch",
    "FetchSessionIdNotFound",
    "FetchSessionTopicIdMismatch",
    "InconsistentTopicId",
    "InvalidFetchSessionEpoch",
    "InvalidFetchSize",
    "InvalidPartitions",
    "InvalidRecord",
    "InvalidReplicaAssignment",
    "InvalidReplicationFactor",
    "InvalidRequiredAcks",
    "InvalidTimestamp",
    "InvalidTopic",
    "LeaderNotAvailable",
    "LogDirNotFound",
    "MessageTooLarge",
    "NoReassignmentInProgress",
    "NotEnoughReplicas",
    "NotEnoughReplicasAfterAppend",
    "NotLeaderOrFollower",
    "OffsetMovedToTieredStorage",
    "OffsetNotAvailable",
    "OffsetOutOfRange",
    "PreferredLeaderNotAvailable",
    "ReassignmentInProgress",
    "RecordListTooLarge",
    "ReplicaNotAvailable",
    "StorageFailed",
    "TopicAlreadyExists",
    "TopicDeletionDisabled",
    "UnknownLeaderEpoch",
    "UnknownTopicId",
    "UnknownTopicOrPartition",
    "UnsupportedCompressionType",
    "UnsupportedForMessageFormat",
]


class OffsetOutOfRange(BrokerError, code=ErrorCode.OFFSET_OUT_OF_RANGE):
    advice = "seek to an existing offset, or set auto.offset.reset to earliest or latest"


class CorruptMessage(BrokerError, code=ErrorCode.CORRUPT_MESSAGE): ...


class UnknownTopicOrPartition(StaleMetadata, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
    advice = "create the topic (`penstock topics create`), or check the spelling of its name"


class UnknownTopicId(StaleMetadata, code=ErrorCode.UNKNOWN_TOPIC_ID): ...


class InconsistentTopicId(StaleMetadata, code=ErrorCode.INCONSISTENT_TOPIC_ID): ...


class InvalidFetchSize(BrokerError, code=ErrorCode.INVALID_FETCH_SIZE): ...


class LeaderNotAvailable(StaleMetadata, code=ErrorCode.LEADER_NOT_AVAILABLE): ...


class NotLeaderOrFollower(StaleMetadata, code=ErrorCode.NOT_LEADER_OR_FOLLOWER): ...


class ReplicaNotAvailable(StaleMetadata, code=ErrorCode.REPLICA_NOT_AVAILABLE): ...


class FencedLeaderEpoch(StaleMetadata, code=ErrorCode.FENCED_LEADER_EPOCH): ...


class UnknownLeaderEpoch(StaleMetadata, code=ErrorCode.UNKNOWN_LEADER_EPOCH): ...


class OffsetNotAvailable(BrokerError, code=ErrorCode.OFFSET_NOT_AVAILABLE): ...


class MessageTooLarge(BrokerError, code=ErrorCode.MESSAGE_TOO_LARGE):
    advice = "send smaller records or batches (batch.size), or raise the topic's max.message.bytes"


class RecordListTooLarge(BrokerError, code=ErrorCode.RECORD_LIST_TOO_LARGE):
    advice = "send smaller batches (batch.size), or raise the topic's segment.bytes"


class NotEnoughReplicas(BrokerError, code=ErrorCode.NOT_ENOUGH_REPLICAS):
    advice = "restart the topic's brokers, or lower its min.insync.replicas"


class NotEnoughReplicasAfterAppend(BrokerError, code=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
    advice = "restart the topic's brokers, or lower its min.insync.replicas"


class InvalidRequiredAcks(BrokerError, code=ErrorCode.INVALID_REQUIRED_ACKS): ...


class InvalidTimestamp(BrokerError, code=ErrorCode.INVALID_TIMESTAMP):
    advice = "check the topic's message.timestamp.before.max.ms and message.timestamp.after.max.ms"


class InvalidRecord(BrokerError, code=ErrorCode.INVALID_RECORD):
    advice = "records of a compacted topic need a key"


class UnsupportedForMessageFormat(BrokerError, code=ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT): ...


class UnsupportedCompressionType(BrokerError, code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE):
    advice = "choose another compression.type"


class StorageFailed(StaleMetadata, code=ErrorCode.KAFKA_STORAGE_ERROR):
    advice = "check the broker's log and disks"


class LogDirNotFound(BrokerError, code=ErrorCode.LOG_DIR_NOT_FOUND):
    advice = "see `penstock log-dirs list` for the directories of each broker"


class FetchSessionIdNotFound(BrokerError, code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND): ...


class InvalidFetchSessionEpoch(BrokerError, code=ErrorCode.INVALID_FETCH_SESSION_EPOCH): ...


class FetchSessionTopicIdMismatch(BrokerError, code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR): ...


class OffsetMovedToTieredStorage(BrokerError, code=ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE): ...


class InvalidTopic(BrokerError, code=ErrorCode.INVALID_TOPIC_EXCEPTION):
    advice = "use up to 249 letters, digits, dots, dashes and underscores"


class TopicAlreadyExists(BrokerError, code=ErrorCode.TOPIC_ALREADY_EXISTS):
    advice = "use it as it is, or choose another name"


class TopicDeletionDisabled(BrokerError, code=ErrorCode.TOPIC_DELETION_DISABLED):
    advice = "set delete.topic.enable on the brokers"


class InvalidPartitions(BrokerError, code=ErrorCode.INVALID_PARTITIONS):
    advice = "a topic needs at least one partition, and partitions cannot be removed"


class InvalidReplicationFactor(BrokerError, code=ErrorCode.INVALID_REPLICATION_FACTOR):
    advice = "see `penstock cluster describe` for the number of brokers"


class InvalidReplicaAssignment(BrokerError, code=ErrorCode.INVALID_REPLICA_ASSIGNMENT): ...


class ReassignmentInProgress(BrokerError, code=ErrorCode.REASSIGNMENT_IN_PROGRESS):
    advice = "wait for it, or cancel it with `penstock reassign cancel`"


class NoReassignmentInProgress(BrokerError, code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS): ...


class PreferredLeaderNotAvailable(BrokerError, code=ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE):
    advice = "wait until the preferred replica is in sync"


class EligibleLeadersNotAvailable(BrokerError, code=ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE):
    advice = "restart a broker that has a replica of the partition"


class ElectionNotNeeded(BrokerError, code=ErrorCode.ELECTION_NOT_NEEDED): ...
