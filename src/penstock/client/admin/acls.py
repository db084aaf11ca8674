"""Access control lists: which principal may do what to which resource."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls
from penstock.client.admin.operations import AclOperation, UnknownMember
from penstock.client.admin.results import Results, only

__all__ = ["Acl", "AclFilter", "AclOperation", "AclPermission", "AclResourceType", "AclsAdmin", "PatternType"]


class AclResourceType(UnknownMember, enum.IntEnum):
    """Numbers of the protocol; `ANY` is for filters only."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(UnknownMember, enum.IntEnum):
    """How a resource name matches. `ANY` and `MATCH` are for filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    """Every entry that applies to a resource of this name: literal, prefixed or wildcard."""
    LITERAL = 3
    PREFIXED = 4


class AclPermission(UnknownMember, enum.IntEnum):
    """Whether an entry allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Acl:
    """One entry: this principal, from this host, is allowed or denied this operation on this resource."""

    resource_type: AclResourceType
    resource_name: str
    pattern: PatternType = PatternType.LITERAL
    principal: str
    """`User:alice`; `User:*` is every user."""
    host: str = "*"
    operation: AclOperation
    permission: AclPermission = AclPermission.ALLOW

    def __str__(self) -> str:
        name = f"{self.resource_name}*" if self.pattern is PatternType.PREFIXED else self.resource_name
        return (
            f"{self.principal} {self.permission.name} {self.operation.name}"
            f" on {self.resource_type.name} {name} from {self.host}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """Selects entries; a field that is not given matches all."""

    resource_type: AclResourceType = AclResourceType.ANY
    resource_name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY

    @classmethod
    def exactly(cls, acl: Acl) -> AclFilter:
        """The filter that matches only this entry."""
        return cls(
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            pattern=acl.pattern,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission=acl.permission,
        )


class AclsAdmin(AdminCalls):
    async def describe_acls(
        self, matching: AclFilter | None = None, *, timeout: float | None = None
    ) -> list[Acl]:
        """The entries that match a filter, or all, sorted."""
        call = self._begin("describe access control", timeout)
        request = wire.acls.describe_request(matching or AclFilter())

        async def attempt() -> list[Acl]:
            return wire.acls.read_described(await call.ask(request))

        return await call.retry(attempt)

    async def create_acl(self, acl: Acl, *, timeout: float | None = None) -> None:
        """Add one entry. It is not an error if it exists already."""
        await only(self.create_acls([acl], timeout=timeout))

    async def create_acls(self, acls: Iterable[Acl], *, timeout: float | None = None) -> dict[Acl, None]:
        """Add entries. An entry that exists already is not an error."""
        call = self._begin("create access control entries", timeout)

        async def attempt(wanted: list[Acl]) -> Results[Acl, None]:
            return wire.acls.read_created(wanted, await call.ask_controller(wire.acls.create_request(wanted)))

        return await call.run_each(acls, attempt)

    async def delete_acls(
        self, filters: Iterable[AclFilter | Acl], *, timeout: float | None = None
    ) -> dict[AclFilter, list[Acl]]:
        """Delete all entries that match one of the filters; returns the deleted entries by filter."""
        call = self._begin("delete access control entries", timeout)
        wanted = [AclFilter.exactly(each) if isinstance(each, Acl) else each for each in filters]

        async def attempt(filters: list[AclFilter]) -> Results[AclFilter, list[Acl]]:
            response = await call.ask_controller(wire.acls.delete_request(filters))
            return wire.acls.read_deleted(filters, response)

        return await call.run_each(wanted, attempt)
