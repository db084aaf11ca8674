"""Quotas: how many bytes, requests or connections users, clients and addresses may have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls
from penstock.client.admin.outcome import Answers, only
from penstock.client.errors import BadArgument

DEFAULT = None
"""In place of a name: whoever has no quota of their own."""


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """Whom a quota is for: a user, a client id, both together, or an address. None names the default.

    `QuotaEntity.of(user="alice")`, `QuotaEntity.of(user="alice", client_id=None)`, `QuotaEntity.of(ip="10.0.0.1")`.
    """

    parts: tuple[tuple[str, str | None], ...]
    """Kinds (`user`, `client-id`, `ip`) and names."""

    @classmethod
    def of(cls, **names: str | None) -> QuotaEntity:
        parts = {kind.replace("_", "-"): name for kind, name in names.items()}
        unknown = sorted(parts.keys() - {"user", "client-id", "ip"})
        if unknown or not parts:
            raise BadArgument(
                f"a quota is for user, client_id or ip, not for {', '.join(unknown) or 'nobody'}"
            )
        return cls(tuple(sorted(parts.items(), reverse=True)))

    def __str__(self) -> str:
        return ", ".join(f"{kind} {'<default>' if name is None else name}" for kind, name in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaFilter:
    """Which entities are meant. A kind is given a name, None for the default, or `ANY`; kinds not named match all,
    unless `strict`."""

    parts: Mapping[str, str | None]
    strict: bool = False


ANY = "*any*"
"""As a name in a `QuotaFilter`: whoever it is. No user can be called so, as it never reaches the wire."""


class QuotasAdmin(AdminCalls):
    async def describe_quotas(
        self, matching: QuotaFilter | None = None, *, timeout: float | None = None
    ) -> dict[QuotaEntity, dict[str, float]]:
        """The quotas that are set, by entity and name: of those that pass the filter, or all."""
        call = self._begin("describe quotas", timeout)
        request = wire.quotas.describe_request(matching or QuotaFilter(parts={}))

        async def attempt() -> dict[QuotaEntity, dict[str, float]]:
            return wire.quotas.read_described(await call.ask(request))

        return await call.repeat(attempt)

    async def alter_quota(
        self,
        entity: QuotaEntity,
        set: Mapping[str, float] | None = None,
        *,
        unset: Iterable[str] = (),
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Set and remove quotas of one: `alter_quota(QuotaEntity.of(user="alice"), {"producer_byte_rate": 1e6})`."""
        changes: dict[str, float | None] = {**(set or {}), **dict.fromkeys(unset)}
        await only(self.alter_quotas({entity: changes}, validate_only=validate_only, timeout=timeout))

    async def alter_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[QuotaEntity, None]:
        """Set quotas of several entities; None removes one."""
        call = self._begin("alter quotas", timeout)

        async def attempt(entities: list[QuotaEntity]) -> Answers[QuotaEntity, None]:
            request = wire.quotas.alter_request(
                {entity: changes[entity] for entity in entities}, validate_only=validate_only
            )
            return wire.quotas.read_altered(await call.ask_controller(request))

        return await call.each(changes, attempt)
