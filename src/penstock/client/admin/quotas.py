"""Client quotas: limits on bytes, requests and connections of users, client ids and IP addresses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls
from penstock.client.admin.results import Results, only
from penstock.client.errors import BadArgument

DEFAULT = None
"""The default entity: those without a quota of their own."""


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """The entity of a quota: a user, a client id, both, or an IP address. None stands for the default.

    `QuotaEntity.of(user="alice")`, `QuotaEntity.of(user="alice", client_id=None)`, `QuotaEntity.of(ip="10.0.0.1")`.
    """

    parts: tuple[tuple[str, str | None], ...]
    """Entity types (`user`, `client-id`, `ip`) and names."""

    @classmethod
    def of(cls, **names: str | None) -> QuotaEntity:
        parts = {kind.replace("_", "-"): name for kind, name in names.items()}
        unknown = sorted(parts.keys() - {"user", "client-id", "ip"})
        if unknown or not parts:
            raise BadArgument(f"a quota needs user, client_id or ip, not {', '.join(unknown) or 'nothing'}")
        return cls(tuple(sorted(parts.items(), reverse=True)))

    def __str__(self) -> str:
        return ", ".join(f"{kind} {'<default>' if name is None else name}" for kind, name in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaFilter:
    """Selects entities. A type has a name, None for the default, or `ANY`. Types that are not given match all, unless
    `strict`."""

    parts: Mapping[str, str | None]
    strict: bool = False


ANY = "*any*"
"""A name in a `QuotaFilter` that matches every name. It is never sent to a broker."""


class QuotasAdmin(AdminCalls):
    async def describe_quotas(
        self, matching: QuotaFilter | None = None, *, timeout: float | None = None
    ) -> dict[QuotaEntity, dict[str, float]]:
        """The quotas by entity and name: of entities that match the filter, or all."""
        call = self._begin("describe quotas", timeout)
        request = wire.quotas.describe_request(matching or QuotaFilter(parts={}))

        async def attempt() -> dict[QuotaEntity, dict[str, float]]:
            return wire.quotas.read_described(await call.ask(request))

        return await call.retry(attempt)

    async def alter_quota(
        self,
        entity: QuotaEntity,
        set: Mapping[str, float] | None = None,
        *,
        unset: Iterable[str] = (),
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Set or remove quotas of one entity: `alter_quota(QuotaEntity.of(user="alice"), {"producer_byte_rate":
        1e6})`."""
        changes: dict[str, float | None] = {**(set or {}), **dict.fromkeys(unset)}
        await only(self.alter_quotas({entity: changes}, validate_only=validate_only, timeout=timeout))

    async def alter_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[QuotaEntity, None]:
        """Set quotas of several entities; None removes a quota."""
        call = self._begin("alter quotas", timeout)

        async def attempt(entities: list[QuotaEntity]) -> Results[QuotaEntity, None]:
            request = wire.quotas.alter_request(
                {entity: changes[entity] for entity in entities}, validate_only=validate_only
            )
            return wire.quotas.read_altered(await call.ask_controller(request))

        return await call.run_each(changes, attempt)
