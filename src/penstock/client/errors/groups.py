"""Errors of brokers about groups and their members."""

from __future__ import annotations

from penstock.client.errors.base import BrokerError, CoordinatorUnavailable, Fenced
from penstock.protocol.errors import ErrorCode

__all__ = [
    "CoordinatorLoadInProgress",
    "CoordinatorNotAvailable",
    "FencedInstanceId",
    "FencedMemberEpoch",
    "FencedStateEpoch",
    "GroupIdNotFound",
    "GroupMaxSizeReached",
    "GroupSubscribedToTopic",
    "IllegalGeneration",
    "InconsistentGroupProtocol",
    "InvalidCommitOffsetSize",
    "InvalidGroupId",
    "InvalidRecordState",
    "InvalidRegularExpression",
    "InvalidSessionTimeout",
    "InvalidShareSessionEpoch",
    "MemberIdRequired",
    "NonEmptyGroup",
    "NotCoordinator",
    "OffsetMetadataTooLarge",
    "RebalanceInProgress",
    "ShareSessionLimitReached",
    "ShareSessionNotFound",
    "StaleMemberEpoch",
    "StreamsInvalidTopology",
    "StreamsInvalidTopologyEpoch",
    "StreamsTopologyFenced",
    "UnknownMemberId",
    "UnreleasedInstanceId",
    "UnstableOffsetCommit",
    "UnsupportedAssignor",
]


class CoordinatorLoadInProgress(CoordinatorUnavailable, code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS): ...


class CoordinatorNotAvailable(CoordinatorUnavailable, code=ErrorCode.COORDINATOR_NOT_AVAILABLE): ...


class NotCoordinator(CoordinatorUnavailable, code=ErrorCode.NOT_COORDINATOR): ...


class IllegalGeneration(BrokerError, code=ErrorCode.ILLEGAL_GENERATION): ...


class InconsistentGroupProtocol(BrokerError, code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL):
    advice = "all members need a common partition.assignment.strategy and the same group.protocol"


class InvalidGroupId(BrokerError, code=ErrorCode.INVALID_GROUP_ID):
    advice = "group.id must not be empty"


class UnknownMemberId(BrokerError, code=ErrorCode.UNKNOWN_MEMBER_ID): ...


class InvalidSessionTimeout(BrokerError, code=ErrorCode.INVALID_SESSION_TIMEOUT):
    advice = "keep session.timeout.ms within the broker's group.min.session.timeout.ms and group.max.session.timeout.ms"


class RebalanceInProgress(BrokerError, code=ErrorCode.REBALANCE_IN_PROGRESS): ...


class MemberIdRequired(BrokerError, code=ErrorCode.MEMBER_ID_REQUIRED): ...


class GroupMaxSizeReached(BrokerError, code=ErrorCode.GROUP_MAX_SIZE_REACHED):
    advice = "raise group.max.size on the brokers, or start fewer members"


class FencedInstanceId(Fenced, code=ErrorCode.FENCED_INSTANCE_ID):
    advice = "give each member a group.instance.id of its own"


class UnreleasedInstanceId(BrokerError, code=ErrorCode.UNRELEASED_INSTANCE_ID):
    advice = "stop the other member, or wait until its session ends"


class FencedMemberEpoch(Fenced, code=ErrorCode.FENCED_MEMBER_EPOCH): ...


class StaleMemberEpoch(BrokerError, code=ErrorCode.STALE_MEMBER_EPOCH): ...


class UnsupportedAssignor(BrokerError, code=ErrorCode.UNSUPPORTED_ASSIGNOR):
    advice = "choose a group.remote.assignor that the brokers support: uniform or range"


class InvalidRegularExpression(BrokerError, code=ErrorCode.INVALID_REGULAR_EXPRESSION):
    advice = "use RE2 syntax"


class OffsetMetadataTooLarge(BrokerError, code=ErrorCode.OFFSET_METADATA_TOO_LARGE):
    advice = "keep it under the broker's offset.metadata.max.bytes"


class InvalidCommitOffsetSize(BrokerError, code=ErrorCode.INVALID_COMMIT_OFFSET_SIZE): ...


class UnstableOffsetCommit(BrokerError, code=ErrorCode.UNSTABLE_OFFSET_COMMIT): ...


class NonEmptyGroup(BrokerError, code=ErrorCode.NON_EMPTY_GROUP):
    advice = "stop the group's members first"


class GroupIdNotFound(BrokerError, code=ErrorCode.GROUP_ID_NOT_FOUND):
    advice = "see `penstock groups list`"


class GroupSubscribedToTopic(BrokerError, code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC):
    advice = "stop the group's members first"


class InvalidRecordState(BrokerError, code=ErrorCode.INVALID_RECORD_STATE): ...


class ShareSessionNotFound(BrokerError, code=ErrorCode.SHARE_SESSION_NOT_FOUND): ...


class InvalidShareSessionEpoch(BrokerError, code=ErrorCode.INVALID_SHARE_SESSION_EPOCH): ...


class ShareSessionLimitReached(BrokerError, code=ErrorCode.SHARE_SESSION_LIMIT_REACHED): ...


class FencedStateEpoch(Fenced, code=ErrorCode.FENCED_STATE_EPOCH): ...


class StreamsInvalidTopology(BrokerError, code=ErrorCode.STREAMS_INVALID_TOPOLOGY): ...


class StreamsInvalidTopologyEpoch(BrokerError, code=ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH): ...


class StreamsTopologyFenced(Fenced, code=ErrorCode.STREAMS_TOPOLOGY_FENCED): ...
