"""`penstock acls`: access control lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

from penstock.cli.connection import Connection
from penstock.cli.declare import Group, option
from penstock.cli.output import Output

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.client.admin.acls import Acl, AclFilter, AclOperation, AclPermission, AclResourceType

command = Group(help="List, add and remove access control entries.", kafka="kafka-acls")


class Resources(NamedTuple):
    """Resources: a bundle of options."""

    topics: Annotated[
        tuple[str, ...], option("--topic", help="A topic. May be repeated.", complete="topic")
    ] = ()
    groups: Annotated[
        tuple[str, ...], option("--group", help="A group. May be repeated.", complete="group")
    ] = ()
    transactional_ids: Annotated[
        tuple[str, ...], option("--transactional-id", help="A transactional id. May be repeated.")
    ] = ()
    users: Annotated[tuple[str, ...], option("--on-user", help="A user, for delegation tokens.")] = ()
    tokens: Annotated[tuple[str, ...], option("--token", help="A delegation token.")] = ()
    cluster: Annotated[bool, option("--cluster", help="The cluster itself.")] = False
    prefixed: Annotated[bool, option("--prefixed", help="Treat the names as prefixes.")] = False

    def named(self) -> list[tuple[AclResourceType, str]]:
        from penstock.client.admin.acls import CLUSTER_NAME, AclResourceType

        return [
            *((AclResourceType.TOPIC, name) for name in self.topics),
            *((AclResourceType.GROUP, name) for name in self.groups),
            *((AclResourceType.TRANSACTIONAL_ID, name) for name in self.transactional_ids),
            *((AclResourceType.USER, name) for name in self.users),
            *((AclResourceType.DELEGATION_TOKEN, name) for name in self.tokens),
            *([(AclResourceType.CLUSTER, CLUSTER_NAME)] if self.cluster else []),
        ]


class Who(NamedTuple):
    """Principals, hosts and operations: a bundle of options."""

    allow: Annotated[
        tuple[str, ...],
        option(
            "--allow", metavar="User:NAME", help="A principal to allow; User:* is everyone. May be repeated."
        ),
    ] = ()
    deny: Annotated[
        tuple[str, ...], option("--deny", metavar="User:NAME", help="A principal to deny. May be repeated.")
    ] = ()
    hosts: Annotated[tuple[str, ...], option("--host", help="Only from this host. May be repeated.")] = ()
    operations: Annotated[
        tuple[str, ...],
        option("--operation", "-o", help="read, write, create, describe, alter ... May be repeated."),
    ] = ()


@command.command("list", examples=["penstock acls list", "penstock acls list --topic orders --json"])
def list_acls(
    *,
    resources: Resources,
    connection: Connection,
    output: Output,
    principal: Annotated[
        str | None, option("--principal", metavar="User:NAME", help="Only entries of this principal.")
    ] = None,
) -> None:
    """List entries, of some resources or of all."""
    from penstock.client.admin.acls import AclsAdmin

    filters = _filters(resources, principal)

    async def work(admin: AclsAdmin) -> list[Acl]:
        found = {acl for matching in filters for acl in await admin.describe_acls(matching)}
        return sorted(found)

    _show(output, connection.with_admin(AclsAdmin, work), empty="No entry matches.")


def _filters(resources: Resources, principal: str | None) -> list[AclFilter]:
    from penstock.client.admin.acls import AclFilter, PatternType

    pattern = PatternType.PREFIXED if resources.prefixed else PatternType.MATCH
    return [
        AclFilter(resource_type=kind, resource_name=name, pattern=pattern, principal=principal)
        for kind, name in resources.named()
    ] or [AclFilter(principal=principal)]


def _show(output: Output, acls: Iterable[Acl], *, empty: str) -> None:
    output.table(
        ["resource", "name", "pattern", "principal", "host", "operation", "permission"],
        [
            (
                acl.resource_type.name.lower(),
                acl.resource_name,
                acl.pattern.name.lower(),
                acl.principal,
                acl.host,
                acl.operation.name.lower(),
                acl.permission.name.lower(),
            )
            for acl in acls
        ],
        empty=empty,
    )


@command.command(
    "add",
    examples=[
        "penstock acls add --allow User:alice --operation read --operation describe --topic orders",
        "penstock acls add --deny User:* --host 10.0.0.9 --operation all --topic orders- --prefixed",
    ],
)
def add(*, who: Who, resources: Resources, connection: Connection, output: Output) -> None:
    """Allow or deny operations to principals."""
    from penstock.client.admin.acls import AclsAdmin

    acls = _entries(who, resources)
    connection.with_admin(AclsAdmin, lambda admin: admin.create_acls(acls))
    _show(output, acls, empty="")


@command.command(
    "remove", examples=["penstock acls remove --allow User:alice --operation read --topic orders"]
)
def remove(*, who: Who, resources: Resources, connection: Connection, output: Output) -> None:
    """Remove entries: exactly these, or without --allow and --deny all entries of the resources."""
    from penstock.cli.failures import Misuse
    from penstock.client.admin.acls import AclFilter, AclsAdmin, PatternType

    if not resources.named():
        raise Misuse("name the resources: --topic, --group, --transactional-id or --cluster")
    filters: Sequence[AclFilter | Acl]
    if who.allow or who.deny:
        filters = _entries(who, resources)
    else:
        pattern = PatternType.PREFIXED if resources.prefixed else PatternType.LITERAL
        filters = [
            AclFilter(resource_type=kind, resource_name=name, pattern=pattern)
            for kind, name in resources.named()
        ]
    removed = connection.with_admin(AclsAdmin, lambda admin: admin.delete_acls(filters))
    _show(output, sorted(acl for acls in removed.values() for acl in acls), empty="Nothing to remove.")


def _entries(who: Who, resources: Resources) -> list[Acl]:
    from penstock.cli.failures import Misuse
    from penstock.client.admin.acls import Acl, AclPermission, PatternType

    principals: list[tuple[str, AclPermission]] = [
        *((name, AclPermission.ALLOW) for name in who.allow),
        *((name, AclPermission.DENY) for name in who.deny),
    ]
    if not principals:
        raise Misuse("name a principal: --allow User:alice or --deny User:alice")
    if not resources.named():
        raise Misuse("name the resources: --topic, --group, --transactional-id or --cluster")
    for name, _ in principals:
        if ":" not in name:
            raise Misuse(f"{name} is not a principal: write it as User:{name}")
    return [
        Acl(
            resource_type=kind,
            resource_name=name,
            pattern=PatternType.PREFIXED if resources.prefixed else PatternType.LITERAL,
            principal=principal,
            host=host,
            operation=operation,
            permission=permission,
        )
        for kind, name in resources.named()
        for principal, permission in principals
        for host in who.hosts or ("*",)
        for operation in _operations(who.operations)
    ]


def _operations(names: Sequence[str]) -> list[AclOperation]:
    from penstock.cli.failures import Misuse
    from penstock.client.admin.operations import AclOperation

    known = {each.name.replace("_", ""): each for each in AclOperation if each > AclOperation.ANY}
    found = []
    for name in names or ("all",):
        operation = known.get(name.upper().replace("_", "").replace("-", ""))
        if operation is None:
            allowed = ", ".join(each.name.lower() for each in known.values())
            raise Misuse(f"--operation {name}: must be one of {allowed}")
        found.append(operation)
    return found
