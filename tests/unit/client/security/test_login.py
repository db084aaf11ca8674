"""SASL logins in a simulated network: rejections, and expiring sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from harness.scripted_cluster import ScriptedCluster
from penstock.client import errors
from penstock.client.cluster_client import ClusterClient
from penstock.client.settings import AdminSettings
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from penstock.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";'


def run(world: ScriptedCluster, test: Callable[[ClusterClient], Coroutine[Any, Any, None]]) -> None:
    options = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_jaas_config": LOGIN}

    async def main() -> None:
        settings = AdminSettings.of(world.bootstrap, None, options)
        client = ClusterClient(settings, network=world.network, clock=world.clock, rng=world.random)
        try:
            await test(client)
        finally:
            await client.close()

    world.run(main)


def secured(*, lifetime_ms: int = 0) -> ScriptedCluster:
    world = ScriptedCluster()
    world.answer(SaslHandshakeRequest, lambda request, node: SaslHandshakeResponse(mechanisms=["PLAIN"]))
    world.answer(
        SaslAuthenticateRequest,
        lambda request, node: SaslAuthenticateResponse(auth_bytes=b"", session_lifetime_ms=lifetime_ms),
    )
    world.answer(ListGroupsRequest, lambda request, node: ListGroupsResponse(groups=[]))
    return world


def test_the_login_comes_before_every_other_request() -> None:
    world = secured()

    async def test(client: ClusterClient) -> None:
        await client.refresh()
        _, handshake, authenticate, metadata = world.nodes[1].asked
        assert isinstance(handshake, SaslHandshakeRequest)
        assert handshake.mechanism == "PLAIN"
        assert bytes(authenticate.auth_bytes) == b"\0alice\0secret"
        assert isinstance(metadata, MetadataRequest)

    run(world, test)


def test_a_mechanism_that_the_broker_does_not_enable_is_rejected_with_those_enabled() -> None:
    world = secured()
    world.answer(
        SaslHandshakeRequest,
        lambda request, node: SaslHandshakeResponse(
            error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=["SCRAM-SHA-256", "GSSAPI"]
        ),
    )

    async def test(client: ClusterClient) -> None:
        with pytest.raises(errors.UnsupportedSaslMechanism, match="it enables SCRAM-SHA-256, GSSAPI"):
            await client.refresh()

    run(world, test)


def test_a_rejected_login_has_the_brokers_message_and_is_not_retried() -> None:
    world = secured()
    world.answer(
        SaslAuthenticateRequest,
        lambda request, node: SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="Who are you?", auth_bytes=b""
        ),
    )

    async def test(client: ClusterClient) -> None:
        with pytest.raises(errors.SaslAuthenticationFailed, match="Who are you"):
            await client.refresh()
        await asyncio.sleep(60)
        assert len(world.nodes[1].asked_for(SaslAuthenticateRequest)) == 1

    run(world, test)


def test_an_expiring_login_is_renewed_in_time() -> None:
    world = secured(lifetime_ms=10_000)

    async def test(client: ClusterClient) -> None:
        await client.refresh()
        for _ in range(60):
            await asyncio.sleep(1)
            await client.ask(1, ListGroupsRequest())
        assert 6 <= world.nodes[1].connections <= 8, "one for each nine seconds"
        assert len(world.nodes[1].asked_for(ListGroupsRequest)) == 60

    run(world, test)


def test_requests_in_flight_are_answered_before_a_login_is_renewed() -> None:
    world = secured(lifetime_ms=10_000)

    async def late() -> ListGroupsResponse:
        await asyncio.sleep(3)
        return ListGroupsResponse(groups=[])

    async def test(client: ClusterClient) -> None:
        await client.refresh()
        await asyncio.sleep(7)
        world.answer(ListGroupsRequest, lambda request, node: late())
        first = client.send(1, ListGroupsRequest())
        await asyncio.sleep(2.5)
        assert not client.is_ready(1)
        await client.ask(1, ListGroupsRequest())
        assert first.done()
        await first

    run(world, test)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sasl_mechanism": "GSSAPI"}, "GSSAPI is not supported"),
        ({"sasl_mechanism": "PLAIN"}, "needs sasl.jaas.config"),
        (
            {"sasl_mechanism": "PLAIN", "sasl_jaas_config": LOGIN.replace("password", "pass")},
            "lacks password",
        ),
    ],
)
def test_an_impossible_login_is_rejected_when_the_client_is_created(
    options: dict[str, object], message: str
) -> None:
    settings = AdminSettings.of("localhost:9092", None, {"security_protocol": "SASL_SSL", **options})
    with pytest.raises(errors.BadConfiguration, match=message):
        ClusterClient(settings)
