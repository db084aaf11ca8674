"""Envelopes of forwarded requests: what a controller makes of bad ones."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.broker.context import RequestContext
from penstock.broker.controller_handlers import TABLE
from penstock.broker.envelopes import FORWARDABLE, unwrap_request, wrap_request
from penstock.broker.handler_table import ServedApi
from penstock.metadata.errors import Refused
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.headers import encode_request_header
from penstock.protocol.messages.create_topics import CreateTopicsRequest
from penstock.protocol.messages.envelope import EnvelopeRequest
from penstock.protocol.messages.list_groups import ListGroupsRequest
from penstock.protocol.plan import plan_message
from strategies.messages import messages_of

OUTER = RequestContext(ApiKey.ENVELOPE, 0, 1, "broker-1", "10.0.0.1", "CONTROLLER", "User:broker", None)
REQUEST = CreateTopicsRequest(topics=[], timeout_ms=1)


def context(key: ApiKey = ApiKey.CREATE_TOPICS, version: int = 7) -> RequestContext:
    return RequestContext(key, version, 3, None, "192.0.2.1", "PLAINTEXT", "User:bob", None)


GOOD = wrap_request(REQUEST, context())


def refusal(envelope: EnvelopeRequest) -> ErrorCode:
    with pytest.raises(Refused) as caught:
        unwrap_request(envelope, OUTER, TABLE.versions)
    return caught.value.error


def replaced(**fields: Any) -> EnvelopeRequest:
    return dataclasses.replace(GOOD, **fields)


def test_a_request_comes_out_as_it_went_in() -> None:
    request, found = unwrap_request(GOOD, OUTER, TABLE.versions)
    assert request == REQUEST
    assert (found.version, found.correlation_id, found.client_id) == (7, 3, None)
    assert (found.principal, found.peer_host, found.listener) == ("User:bob", "192.0.2.1", "CONTROLLER")


def test_an_envelope_within_an_envelope_is_refused() -> None:
    inner = wrap_request(GOOD, context(ApiKey.ENVELOPE, 0))
    assert refusal(inner) is ErrorCode.INVALID_REQUEST


def test_a_request_that_is_not_for_the_controller_is_refused() -> None:
    groups = wrap_request(ListGroupsRequest(), context(ApiKey.LIST_GROUPS, 4))
    assert refusal(groups) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("principal", [None, b"", b"\0", b"\0\x07\x05User\x04bob\0\0", b"\0\0\x7f"])
def test_a_principal_that_cannot_be_read_is_refused(principal: bytes | None) -> None:
    envelope = replaced(request_principal=principal)
    assert refusal(envelope) is ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE


@pytest.mark.parametrize("size", [0, 3, 5, 15, 17])
def test_a_client_address_of_the_wrong_size_is_refused(size: int) -> None:
    assert refusal(replaced(client_host_address=bytes(size))) is ErrorCode.INVALID_REQUEST


def test_a_version_that_is_not_served_is_refused() -> None:
    head = encode_request_header(ApiKey.CREATE_TOPICS, 99, 3, None)
    assert refusal(replaced(request_data=head)) is ErrorCode.UNSUPPORTED_VERSION


@given(cut=st.integers(0, len(GOOD.request_data) - 1))
def test_a_request_that_is_cut_off_is_refused(cut: int) -> None:
    assert refusal(replaced(request_data=GOOD.request_data[:cut])) is ErrorCode.UNSUPPORTED_VERSION


@given(data=st.binary(max_size=60))
def test_random_bytes_are_refused_or_read_but_never_a_bug(data: bytes) -> None:
    with suppress(Refused):
        unwrap_request(replaced(request_data=data), OUTER, TABLE.versions)


def test_forwardable_requests_that_controllers_serve_can_report_an_error() -> None:
    """The channel needs `refuse` if no controller answers."""
    served = [api.key for api in TABLE.apis if api.key in FORWARDABLE]
    assert served
    for key in served:
        assert callable(TABLE.module(key).refuse), ApiKey(key).name


@pytest.mark.parametrize("served", [each for each in TABLE.apis if hasattr(TABLE.module(each.key), "refuse")])
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_refusal_can_be_encoded_in_every_version(served: ServedApi, data: st.DataObject) -> None:
    """A refused ElectLeaders v0 had an error code that only v1 has, so the connection was closed."""
    described = api(served.key)
    version = data.draw(st.integers(served.first_version, served.last_version))
    request = data.draw(messages_of(plan_message(described.request_class(), version)))

    response = TABLE.refuse(request, Refused(ErrorCode.NOT_CONTROLLER), context(described.key, version))

    codec(described.response_class(), version).encode(response)
