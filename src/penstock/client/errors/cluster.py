"""Errors of brokers about requests, the controller, the quorum and the cluster."""

from __future__ import annotations

from penstock.client.errors.base import BrokerError, StaleMetadata
from penstock.protocol.errors import ErrorCode

__all__ = [
    "BrokerIdNotRegistered",
    "BrokerNotAvailable",
    "DuplicateBrokerRegistration",
    "DuplicateResource",
    "DuplicateVoter",
    "FeatureUpdateFailed",
    "InconsistentClusterId",
    "InconsistentVoterSet",
    "IneligibleReplica",
    "InvalidConfig",
    "InvalidRegistration",
    "InvalidRequest",
    "InvalidUpdateVersion",
    "InvalidVoterKey",
    "ListenerNotFound",
    "MismatchedEndpointType",
    "NetworkFailed",
    "NewLeaderElected",
    "NotController",
    "OperationNotAttempted",
    "PositionOutOfRange",
    "RebootstrapRequired",
    "RequestTimedOut",
    "ResourceNotFound",
    "SnapshotNotFound",
    "StaleBrokerEpoch",
    "StaleControllerEpoch",
    "TelemetryTooLarge",
    "ThrottlingQuotaExceeded",
    "UnknownControllerId",
    "UnknownServerError",
    "UnknownSubscriptionId",
    "UnsupportedEndpointType",
    "UnsupportedVersion",
    "VoterNotFound",
]


class UnknownServerError(BrokerError, code=ErrorCode.UNKNOWN_SERVER_ERROR):
    advice = "see the broker's log"


class RequestTimedOut(BrokerError, code=ErrorCode.REQUEST_TIMED_OUT): ...


class BrokerNotAvailable(BrokerError, code=ErrorCode.BROKER_NOT_AVAILABLE): ...


class NetworkFailed(StaleMetadata, code=ErrorCode.NETWORK_EXCEPTION): ...


class UnsupportedVersion(BrokerError, code=ErrorCode.UNSUPPORTED_VERSION):
    advice = "the broker is too old or too new for this, or does not support it"


class InvalidRequest(BrokerError, code=ErrorCode.INVALID_REQUEST): ...


class InvalidConfig(BrokerError, code=ErrorCode.INVALID_CONFIG):
    advice = "see `penstock settings` for the allowed values"


class OperationNotAttempted(BrokerError, code=ErrorCode.OPERATION_NOT_ATTEMPTED): ...


class ListenerNotFound(StaleMetadata, code=ErrorCode.LISTENER_NOT_FOUND):
    advice = "give every broker the same listeners"


class ThrottlingQuotaExceeded(BrokerError, code=ErrorCode.THROTTLING_QUOTA_EXCEEDED):
    advice = "send fewer requests, or raise the quota (`penstock quotas set`)"


class ResourceNotFound(BrokerError, code=ErrorCode.RESOURCE_NOT_FOUND): ...


class DuplicateResource(BrokerError, code=ErrorCode.DUPLICATE_RESOURCE): ...


class NotController(StaleMetadata, code=ErrorCode.NOT_CONTROLLER): ...


class StaleControllerEpoch(BrokerError, code=ErrorCode.STALE_CONTROLLER_EPOCH): ...


class StaleBrokerEpoch(BrokerError, code=ErrorCode.STALE_BROKER_EPOCH): ...


class InconsistentClusterId(BrokerError, code=ErrorCode.INCONSISTENT_CLUSTER_ID):
    advice = "check that bootstrap.servers names only one cluster"


class RebootstrapRequired(BrokerError, code=ErrorCode.REBOOTSTRAP_REQUIRED): ...


class MismatchedEndpointType(BrokerError, code=ErrorCode.MISMATCHED_ENDPOINT_TYPE):
    advice = "use bootstrap.servers for brokers and bootstrap.controllers for controllers"


class UnsupportedEndpointType(BrokerError, code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE): ...


class UnknownControllerId(BrokerError, code=ErrorCode.UNKNOWN_CONTROLLER_ID): ...


class UnknownSubscriptionId(BrokerError, code=ErrorCode.UNKNOWN_SUBSCRIPTION_ID): ...


class TelemetryTooLarge(BrokerError, code=ErrorCode.TELEMETRY_TOO_LARGE): ...


class FeatureUpdateFailed(BrokerError, code=ErrorCode.FEATURE_UPDATE_FAILED):
    advice = "see `penstock features describe` for the supported levels"


class InvalidUpdateVersion(BrokerError, code=ErrorCode.INVALID_UPDATE_VERSION): ...


class InvalidRegistration(BrokerError, code=ErrorCode.INVALID_REGISTRATION): ...


class DuplicateBrokerRegistration(BrokerError, code=ErrorCode.DUPLICATE_BROKER_REGISTRATION):
    advice = "give each node a node.id of its own"


class BrokerIdNotRegistered(BrokerError, code=ErrorCode.BROKER_ID_NOT_REGISTERED): ...


class IneligibleReplica(BrokerError, code=ErrorCode.INELIGIBLE_REPLICA): ...


class NewLeaderElected(BrokerError, code=ErrorCode.NEW_LEADER_ELECTED): ...


class InconsistentVoterSet(BrokerError, code=ErrorCode.INCONSISTENT_VOTER_SET): ...


class InvalidVoterKey(BrokerError, code=ErrorCode.INVALID_VOTER_KEY): ...


class DuplicateVoter(BrokerError, code=ErrorCode.DUPLICATE_VOTER): ...


class VoterNotFound(BrokerError, code=ErrorCode.VOTER_NOT_FOUND):
    advice = "see `penstock quorum replicas` for the voters"


class SnapshotNotFound(BrokerError, code=ErrorCode.SNAPSHOT_NOT_FOUND): ...


class PositionOutOfRange(BrokerError, code=ErrorCode.POSITION_OUT_OF_RANGE): ...
