"""SASL authentication on a connection after the version negotiation: the handshake, then the messages of the
mechanism."""

from __future__ import annotations

from typing import Protocol

from penstock.client import errors
from penstock.client.connection import ClientConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from penstock.protocol.messages.sasl_handshake import SaslHandshakeRequest

HANDSHAKE_VERSION = 1  # version 0 has no envelope for the following messages, and no error message
STEPS_MAX = 8  # of any mechanism; a broker that asks for more loops


class Mechanism(Protocol):
    name: str

    def first(self) -> bytes:
        """The first message."""
        ...

    def answer(self, challenge: bytes) -> bytes | None:
        """The response to a message of the broker; None when the exchange is complete."""
        ...


async def log_in(connection: ClientConnection, mechanism: Mechanism, *, timeout_s: float) -> float | None:
    """The session lifetime in seconds; None: as long as the connection. Raises AuthenticationError."""
    response = await connection.ask(
        SaslHandshakeRequest(mechanism=mechanism.name), version=HANDSHAKE_VERSION, timeout_s=timeout_s
    )
    if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise errors.UnsupportedSaslMechanism(
            f"{connection.peer} does not enable {mechanism.name}; it enables {', '.join(response.mechanisms) or 'none'}"
        )
    if response.error_code != ErrorCode.NONE:
        raise errors.of(response.error_code, about=connection.peer)
    message = mechanism.first()
    for _ in range(STEPS_MAX):
        answer = await _authenticate(connection, message, timeout_s=timeout_s)
        following = mechanism.answer(answer.auth_bytes)
        if following is None:
            return answer.session_lifetime_ms / 1000 or None
        message = following
    raise errors.AuthenticationError(f"the login to {connection.peer} did not end")


async def _authenticate(
    connection: ClientConnection, message: bytes, *, timeout_s: float
) -> SaslAuthenticateResponse:
    response: SaslAuthenticateResponse = await connection.ask(
        SaslAuthenticateRequest(auth_bytes=message), timeout_s=timeout_s
    )
    if response.error_code != ErrorCode.NONE:
        raise errors.of(response.error_code, response.error_message)
    return response
