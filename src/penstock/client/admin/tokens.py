"""Delegation tokens: temporary credentials that a program can hand to its workers (KIP-48)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls

AS_THE_BROKER_SAYS = -1
NOW = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken:
    """A delegation token: an id, a secret and its lifetime."""

    token_id: str
    hmac: bytes = field(repr=False)
    """The secret: it is enough to log in."""
    owner: str
    """A principal: `User:alice`."""
    requester: str | None
    issued_ms: int
    expires_ms: int
    """When it expires unless it is renewed."""
    max_ms: int
    """When it expires for good."""
    renewers: tuple[str, ...] = ()


class TokensAdmin(AdminCalls):
    async def create_token(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int = AS_THE_BROKER_SAYS,
        timeout: float | None = None,
    ) -> DelegationToken:
        """Create a token for the caller, or for another principal if the caller is allowed to (KIP-373)."""
        call = self._begin("create a delegation token", timeout)
        named = tuple(renewers)
        request = wire.tokens.create_request(owner, named, max_lifetime_ms)

        async def attempt() -> DelegationToken:
            return wire.tokens.read_created(await call.ask_controller(request), named)

        return await call.retry(attempt)

    async def renew_token(
        self, hmac: bytes, *, period_ms: int = AS_THE_BROKER_SAYS, timeout: float | None = None
    ) -> int:
        """Extend the lifetime of a token; returns its new expiry time."""
        call = self._begin("renew a delegation token", timeout)

        async def attempt() -> int:
            return wire.tokens.read_expiry(
                await call.ask_controller(wire.tokens.renew_request(hmac, period_ms))
            )

        return await call.retry(attempt)

    async def expire_token(self, hmac: bytes, *, in_ms: int = NOW, timeout: float | None = None) -> int:
        """Let a token expire, now or later; returns its expiry time."""
        call = self._begin("expire a delegation token", timeout)

        async def attempt() -> int:
            return wire.tokens.read_expiry(await call.ask_controller(wire.tokens.expire_request(hmac, in_ms)))

        return await call.retry(attempt)

    async def describe_tokens(
        self, *, owners: Iterable[str] | None = None, timeout: float | None = None
    ) -> list[DelegationToken]:
        """The tokens of the given owners, or all that the caller is allowed to see."""
        call = self._begin("describe delegation tokens", timeout)
        request = wire.tokens.describe_request(None if owners is None else list(owners))

        async def attempt() -> list[DelegationToken]:
            return wire.tokens.read_described(await call.ask(request))

        return await call.retry(attempt)
