"""Errors of brokers about authentication and authorization."""

from __future__ import annotations

from penstock.client.errors.base import AuthenticationError, AuthorizationError, BrokerError
from penstock.protocol.errors import ErrorCode

__all__ = [
    "ClusterAuthorizationFailed",
    "DelegationTokenAuthDisabled",
    "DelegationTokenAuthorizationFailed",
    "DelegationTokenExpired",
    "DelegationTokenNotFound",
    "DelegationTokenOwnerMismatch",
    "DelegationTokenRequestNotAllowed",
    "GroupAuthorizationFailed",
    "IllegalSaslState",
    "InvalidPrincipalType",
    "PolicyViolation",
    "PrincipalDeserializationFailure",
    "SaslAuthenticationFailed",
    "SecurityDisabled",
    "TopicAuthorizationFailed",
    "TransactionalIdAuthorizationFailed",
    "UnacceptableCredential",
    "UnsupportedSaslMechanism",
]


class TopicAuthorizationFailed(AuthorizationError, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED): ...


class GroupAuthorizationFailed(AuthorizationError, code=ErrorCode.GROUP_AUTHORIZATION_FAILED): ...


class ClusterAuthorizationFailed(AuthorizationError, code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED): ...


class TransactionalIdAuthorizationFailed(
    AuthorizationError, code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
): ...


class DelegationTokenAuthorizationFailed(
    AuthorizationError, code=ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
): ...


class SaslAuthenticationFailed(AuthenticationError, BrokerError, code=ErrorCode.SASL_AUTHENTICATION_FAILED):
    advice = "check sasl.mechanism and sasl.jaas.config"


class UnsupportedSaslMechanism(AuthenticationError, BrokerError, code=ErrorCode.UNSUPPORTED_SASL_MECHANISM):
    advice = "set sasl.mechanism to one of the broker's sasl.enabled.mechanisms"


class IllegalSaslState(AuthenticationError, BrokerError, code=ErrorCode.ILLEGAL_SASL_STATE):
    advice = "check that security.protocol matches the broker's listener"


class SecurityDisabled(BrokerError, code=ErrorCode.SECURITY_DISABLED):
    advice = "set authorizer.class.name on the brokers"


class DelegationTokenAuthDisabled(BrokerError, code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED):
    advice = "set delegation.token.secret.key on the brokers"


class DelegationTokenNotFound(BrokerError, code=ErrorCode.DELEGATION_TOKEN_NOT_FOUND): ...


class DelegationTokenOwnerMismatch(BrokerError, code=ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH): ...


class DelegationTokenRequestNotAllowed(BrokerError, code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED):
    advice = "log in with a password or certificate to get a token"


class DelegationTokenExpired(BrokerError, code=ErrorCode.DELEGATION_TOKEN_EXPIRED):
    advice = "get a new one"


class InvalidPrincipalType(BrokerError, code=ErrorCode.INVALID_PRINCIPAL_TYPE):
    advice = "write principals as User:name"


class UnacceptableCredential(BrokerError, code=ErrorCode.UNACCEPTABLE_CREDENTIAL): ...


class PrincipalDeserializationFailure(BrokerError, code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE): ...


class PolicyViolation(BrokerError, code=ErrorCode.POLICY_VIOLATION): ...
