"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and DescribeDelegationToken."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.client.admin.tokens import DelegationToken
from penstock.client.admin.wire.common import check
from penstock.client.errors import BadArgument
from penstock.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from penstock.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from penstock.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from penstock.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


def create_request(
    owner: str | None, renewers: Sequence[str], max_lifetime_ms: int
) -> CreateDelegationTokenRequest:
    owner_type, owner_name = (None, None) if owner is None else _principal(owner)
    return CreateDelegationTokenRequest(
        owner_principal_type=owner_type,
        owner_principal_name=owner_name,
        renewers=[
            CreatableRenewers(principal_type=kind, principal_name=name)
            for kind, name in map(_principal, renewers)
        ],
        max_lifetime_ms=max_lifetime_ms,
    )


def read_created(response: CreateDelegationTokenResponse, renewers: tuple[str, ...]) -> DelegationToken:
    check(response.error_code)
    return DelegationToken(
        token_id=response.token_id,
        hmac=bytes(response.hmac),
        owner=f"{response.principal_type}:{response.principal_name}",
        requester=_requester(
            response.token_requester_principal_type, response.token_requester_principal_name
        ),
        issued_ms=response.issue_timestamp_ms,
        expires_ms=response.expiry_timestamp_ms,
        max_ms=response.max_timestamp_ms,
        renewers=renewers,
    )


def renew_request(hmac: bytes, period_ms: int) -> RenewDelegationTokenRequest:
    return RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)


def expire_request(hmac: bytes, in_ms: int) -> ExpireDelegationTokenRequest:
    return ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=in_ms)


def read_expiry(response: RenewDelegationTokenResponse | ExpireDelegationTokenResponse) -> int:
    check(response.error_code)
    return response.expiry_timestamp_ms


def describe_request(owners: Sequence[str] | None) -> DescribeDelegationTokenRequest:
    if owners is None:
        return DescribeDelegationTokenRequest(owners=None)
    return DescribeDelegationTokenRequest(
        owners=[
            DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
            for kind, name in map(_principal, owners)
        ]
    )


def read_described(response: DescribeDelegationTokenResponse) -> list[DelegationToken]:
    check(response.error_code)
    return [
        DelegationToken(
            token_id=result.token_id,
            hmac=bytes(result.hmac),
            owner=f"{result.principal_type}:{result.principal_name}",
            requester=_requester(
                result.token_requester_principal_type, result.token_requester_principal_name
            ),
            issued_ms=result.issue_timestamp,
            expires_ms=result.expiry_timestamp,
            max_ms=result.max_timestamp,
            renewers=tuple(f"{each.principal_type}:{each.principal_name}" for each in result.renewers),
        )
        for result in response.tokens
    ]


def _principal(text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise BadArgument(f"{text} is not a principal: write it as User:name")
    return kind, name


def _requester(kind: str, name: str) -> str | None:
    return f"{kind}:{name}" if kind else None
