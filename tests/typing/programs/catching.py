"""Every exception by name, and how it is caught and inspected. Never run: type checkers read it."""

from __future__ import annotations

from penstock import errors
from penstock.errors import BrokerError, ClientError, PenstockError, of

FAMILIES: tuple[type[PenstockError], ...] = (
    errors.AuthenticationError,
    errors.AuthorizationError,
    errors.BrokerError,
    errors.ClientError,
    errors.CoordinatorUnavailable,
    errors.Fenced,
    errors.PenstockError,
    errors.StaleMetadata,
)
FOUND_HERE: tuple[type[PenstockError], ...] = (
    errors.BadArgument,
    errors.BadArgumentType,
    errors.BadConfiguration,
    errors.BufferFull,
    errors.ClientClosed,
    errors.CommitFailed,
    errors.ConcurrentUse,
    errors.CorruptRecords,
    errors.DeliveryTimedOut,
    errors.DeserializationFailed,
    errors.Disconnected,
    errors.IllegalState,
    errors.LogTruncated,
    errors.MalformedAnswer,
    errors.NoBrokersAvailable,
    errors.NoOffset,
    errors.RecordTooLarge,
    errors.RegistryError,
    errors.SerializationFailed,
    errors.TimedOut,
    errors.TlsFailed,
    errors.TransactionAborted,
    errors.TransactionNotAborted,
    errors.TransactionNotCommitted,
    errors.TransactionOutcomeUnknown,
    errors.TwoPhaseCommitUnavailable,
    errors.UsedAfterFork,
)
ABOUT_THE_CLUSTER: tuple[type[PenstockError], ...] = (
    errors.BrokerIdNotRegistered,
    errors.BrokerNotAvailable,
    errors.DuplicateBrokerRegistration,
    errors.DuplicateResource,
    errors.DuplicateVoter,
    errors.FeatureUpdateFailed,
    errors.InconsistentClusterId,
    errors.InconsistentVoterSet,
    errors.IneligibleReplica,
    errors.InvalidConfig,
    errors.InvalidRegistration,
    errors.InvalidRequest,
    errors.InvalidUpdateVersion,
    errors.InvalidVoterKey,
    errors.ListenerNotFound,
    errors.MismatchedEndpointType,
    errors.NetworkFailed,
    errors.NewLeaderElected,
    errors.NotController,
    errors.OperationNotAttempted,
    errors.PositionOutOfRange,
    errors.RebootstrapRequired,
    errors.RequestTimedOut,
    errors.ResourceNotFound,
    errors.SnapshotNotFound,
    errors.StaleBrokerEpoch,
    errors.StaleControllerEpoch,
    errors.TelemetryTooLarge,
    errors.ThrottlingQuotaExceeded,
    errors.UnknownControllerId,
    errors.UnknownServerError,
    errors.UnknownSubscriptionId,
    errors.UnsupportedEndpointType,
    errors.UnsupportedVersion,
    errors.VoterNotFound,
)
ABOUT_TOPICS_AND_RECORDS: tuple[type[PenstockError], ...] = (
    errors.CorruptMessage,
    errors.ElectionNotNeeded,
    errors.EligibleLeadersNotAvailable,
    errors.FencedLeaderEpoch,
    errors.FetchSessionIdNotFound,
    errors.FetchSessionTopicIdMismatch,
    errors.InconsistentTopicId,
    errors.InvalidFetchSessionEpoch,
    errors.InvalidFetchSize,
    errors.InvalidPartitions,
    errors.InvalidRecord,
    errors.InvalidReplicaAssignment,
    errors.InvalidReplicationFactor,
    errors.InvalidRequiredAcks,
    errors.InvalidTimestamp,
    errors.InvalidTopic,
    errors.LeaderNotAvailable,
    errors.LogDirNotFound,
    errors.MessageTooLarge,
    errors.NoReassignmentInProgress,
    errors.NotEnoughReplicas,
    errors.NotEnoughReplicasAfterAppend,
    errors.NotLeaderOrFollower,
    errors.OffsetMovedToTieredStorage,
    errors.OffsetNotAvailable,
    errors.OffsetOutOfRange,
    errors.PreferredLeaderNotAvailable,
    errors.ReassignmentInProgress,
    errors.RecordListTooLarge,
    errors.ReplicaNotAvailable,
    errors.StorageFailed,
    errors.TopicAlreadyExists,
    errors.TopicDeletionDisabled,
    errors.UnknownLeaderEpoch,
    errors.UnknownTopicId,
    errors.UnknownTopicOrPartition,
    errors.UnsupportedCompressionType,
    errors.UnsupportedForMessageFormat,
)
ABOUT_GROUPS: tuple[type[PenstockError], ...] = (
    errors.CoordinatorLoadInProgress,
    errors.CoordinatorNotAvailable,
    errors.FencedInstanceId,
    errors.FencedMemberEpoch,
    errors.FencedStateEpoch,
    errors.GroupIdNotFound,
    errors.GroupMaxSizeReached,
    errors.GroupSubscribedToTopic,
    errors.IllegalGeneration,
    errors.InconsistentGroupProtocol,
    errors.InvalidCommitOffsetSize,
    errors.InvalidGroupId,
    errors.InvalidRecordState,
    errors.InvalidRegularExpression,
    errors.InvalidSessionTimeout,
    errors.InvalidShareSessionEpoch,
    errors.MemberIdRequired,
    errors.NonEmptyGroup,
    errors.NotCoordinator,
    errors.OffsetMetadataTooLarge,
    errors.RebalanceInProgress,
    errors.ShareSessionLimitReached,
    errors.ShareSessionNotFound,
    errors.StaleMemberEpoch,
    errors.StreamsInvalidTopology,
    errors.StreamsInvalidTopologyEpoch,
    errors.StreamsTopologyFenced,
    errors.UnknownMemberId,
    errors.UnreleasedInstanceId,
    errors.UnstableOffsetCommit,
    errors.UnsupportedAssignor,
)
ABOUT_SECURITY: tuple[type[PenstockError], ...] = (
    errors.ClusterAuthorizationFailed,
    errors.DelegationTokenAuthDisabled,
    errors.DelegationTokenAuthorizationFailed,
    errors.DelegationTokenExpired,
    errors.DelegationTokenNotFound,
    errors.DelegationTokenOwnerMismatch,
    errors.DelegationTokenRequestNotAllowed,
    errors.GroupAuthorizationFailed,
    errors.IllegalSaslState,
    errors.InvalidPrincipalType,
    errors.PolicyViolation,
    errors.PrincipalDeserializationFailure,
    errors.SaslAuthenticationFailed,
    errors.SecurityDisabled,
    errors.TopicAuthorizationFailed,
    errors.TransactionalIdAuthorizationFailed,
    errors.UnacceptableCredential,
    errors.UnsupportedSaslMechanism,
)
SEVERAL: tuple[type[PenstockError], ...] = (errors.ItemsFailed,)
ABOUT_TRANSACTIONS: tuple[type[PenstockError], ...] = (
    errors.ConcurrentTransactions,
    errors.DuplicateSequenceNumber,
    errors.InvalidProducerEpoch,
    errors.InvalidProducerIdMapping,
    errors.InvalidTransactionTimeout,
    errors.InvalidTxnState,
    errors.OutOfOrderSequenceNumber,
    errors.ProducerFenced,
    errors.TransactionAbortable,
    errors.TransactionCoordinatorFenced,
    errors.TransactionalIdNotFound,
    errors.UnknownProducerId,
)


def catch() -> None:
    try:
        raise of(3, "no such topic", about="orders")
    except errors.UnknownTopicOrPartition as error:
        number: int = error.code
        retriable: bool = error.retriable
        print(number, retriable, error.advice, error.detail, error.about)
    except (errors.AuthorizationError, errors.AuthenticationError) as error:
        print(error.code)
    except errors.DeserializationFailed as error:
        place: tuple[str | None, int | None, int | None] = (error.topic, error.partition, error.offset)
        data: bytes | None = error.data
        print(place, data)
    except errors.NoBrokersAvailable as error:
        attempts: dict[str, str] = error.attempts
        print(attempts)
    except errors.ItemsFailed as error:
        print(error.failures, error.results)
    except errors.RegistryError as error:
        status: int | None = error.status
        print(status)
    except BrokerError as error:
        print(error.code.name)
    except ClientError as error:
        print(error)
