"""Envelopes: a client's request, as a broker forwards it to the active controller (KIP-590).

It has the request with its header, the principal and the address of the client. Both directions are here; no I/O.
"""

from __future__ import annotations

import ipaddress
import struct
from typing import Any

from penstock.broker.context import RequestContext
from penstock.metadata.errors import Refused
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.codec import codec
from penstock.protocol.declare import declaration_of
from penstock.protocol.errors import ErrorCode, MalformedMessage
from penstock.protocol.headers import (
    encode_request_header,
    encode_response_header,
    read_request_header,
    read_response_header,
)
from penstock.protocol.messages.default_principal_data import DefaultPrincipalData
from penstock.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse

FORWARDABLE = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)
"""The requests that an envelope may contain."""

REQUEST_ELEMENTS_MAX = 100_000  # in all arrays of the contained request, as in `dispatcher`

_VERSION = struct.Struct(">h")


def wrap_request(request: Any, context: RequestContext) -> EnvelopeRequest:
    """The envelope of a client's request, in the version in which the client sent it."""
    key = declaration_of(type(request)).key
    assert key is not None, "only requests are forwarded"
    head = encode_request_header(api(key).key, context.version, context.correlation_id, context.client_id)
    data = head + codec(type(request), context.version).encode(request)
    kind, _, name = context.principal.partition(":")
    principal = DefaultPrincipalData(type=kind, name=name, token_authenticated=False)
    return EnvelopeRequest(
        request_data=data,
        request_principal=_VERSION.pack(0) + codec(DefaultPrincipalData, 0).encode(principal),
        client_host_address=_packed(context.peer_host),
    )


def unwrap_request(
    envelope: EnvelopeRequest, context: RequestContext, versions: Any
) -> tuple[Any, RequestContext]:
    """The request and its own context. `versions(api_key)` are those that this listener serves.

    Raises `Refused` with the error code that Kafka has for each fault.
    """
    principal = _principal(envelope.request_principal)
    host = _host(envelope.client_host_address)
    data = memoryview(envelope.request_data)
    try:
        key, version, correlation_id, client_id, position = read_request_header(data)
    except MalformedMessage as error:
        raise Refused(
            ErrorCode.UNSUPPORTED_VERSION, f"The header of the forwarded request cannot be read: {error}"
        ) from error
    if key not in FORWARDABLE:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{api(key).name} requests cannot be forwarded.")
    if version not in versions(key):
        raise Refused(
            ErrorCode.UNSUPPORTED_VERSION, f"Version {version} of {api(key).name} is not supported."
        )
    try:
        request, _ = codec(api(key).request_class(), version).decode_bounded(
            data, position, REQUEST_ELEMENTS_MAX
        )
    except MalformedMessage as error:
        raise Refused(
            ErrorCode.UNSUPPORTED_VERSION, f"The forwarded {api(key).name} request cannot be read: {error}"
        ) from error
    return request, RequestContext(
        key, version, correlation_id, client_id, host, context.listener, principal, context.connection
    )


def wrap_response(response: Any, context: RequestContext) -> EnvelopeResponse:
    """The envelope of a response; `context` is that of the contained request."""
    head = encode_response_header(api(context.api_key).key, context.version, context.correlation_id)
    return EnvelopeResponse(response_data=head + codec(type(response), context.version).encode(response))


def unwrap_response(envelope: EnvelopeResponse, context: RequestContext) -> Any:
    """The response in an envelope without error. Raises `MalformedMessage`."""
    if envelope.response_data is None:
        raise MalformedMessage("the envelope has neither an error nor a response")
    data = memoryview(envelope.response_data)
    key = api(context.api_key).key
    _, position = read_response_header(data, key, context.version)
    response, _ = codec(api(key).response_class(), context.version).decode(data, position)
    return response


def _packed(host: str) -> bytes:
    try:
        return ipaddress.ip_address(host).packed
    except ValueError:
        return bytes(4)  # the peer of a Unix socket or of a simulated network


def _host(address: bytes) -> str:
    try:
        return str(ipaddress.ip_address(bytes(address)))
    except ValueError as error:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"The client address of the envelope has {len(address)} bytes; it must have 4 or 16.",
        ) from error


def _principal(data: bytes | None) -> str:
    try:
        if data is None:
            raise MalformedMessage("it is missing")
        (version,) = _VERSION.unpack_from(data)
        if version != 0:
            raise MalformedMessage(f"version {version} is unknown")
        principal, _ = codec(DefaultPrincipalData, 0).decode(memoryview(data), _VERSION.size)
    except (MalformedMessage, struct.error) as error:
        raise Refused(
            ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
            f"The principal of the envelope cannot be read: {error}",
        ) from error
    return f"{principal.type}:{principal.name}"
