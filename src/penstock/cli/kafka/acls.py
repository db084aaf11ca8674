"""`kafka-acls.sh`: list, add and remove access control entries."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.cli.failures import FAILED
from penstock.cli.flags import OneOf, UsageError
from penstock.cli.kafka.tool import (
    BOOTSTRAP_CONTROLLER,
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Options,
    Tool,
    flag,
)

if TYPE_CHECKING:
    from penstock.client.admin.acls import Acl, AclFilter, AclOperation, AclResourceType, PatternType

TOOL = Tool(
    "This tool helps to manage acls on kafka.",
    BOOTSTRAP_SERVER,
    BOOTSTRAP_CONTROLLER,
    COMMAND_CONFIG,
    flag("add", "Add ACLs."),
    flag("remove", "Remove ACLs."),
    flag("list", "List ACLs for the specified resource, or all."),
    flag("topic", "Topic to which ACLs should be added or removed; * is all.", "topic"),
    flag("group", "Consumer group; * is all.", "group"),
    flag("transactional-id", "Transactional id; * is all.", "transactional-id"),
    flag("delegation-token", "Delegation token; * is all.", "delegation-token"),
    flag("user-principal", "A user, for delegation tokens; * is all.", "user-principal"),
    flag("cluster", "The cluster itself."),
    flag("idempotent", "Enable idempotence for the producer."),
    flag("resource-pattern-type", "How to match names.", "literal, prefixed, any, match", default="literal"),
    flag("operation", "Operation to allow or deny.", "operation", default="All"),
    flag("allow-principal", "principalType:name to allow.", "allow-principal"),
    flag("deny-principal", "principalType:name to deny.", "deny-principal"),
    flag("allow-host", "Host from which access is allowed.", "allow-host"),
    flag("deny-host", "Host from which access is denied.", "deny-host"),
    flag("principal", "Only ACLs of this principal.", "principal"),
    flag("producer", "The ACLs of a producer: WRITE, DESCRIBE and CREATE on topics."),
    flag("consumer", "The ACLs of a consumer: READ and DESCRIBE on topics, READ on groups."),
    flag("force", "Assume yes to all questions."),
    one_of=[
        OneOf(("add", "list", "remove"), "Command must include exactly one action: --list, --add, --remove. ")
    ],
)

Filter = tuple["AclResourceType", str, "PatternType"]
Entries = dict[Filter, list["Acl"]]


def run(options: Options) -> int:
    from penstock.cli.kafka.admin import message_of
    from penstock.client.errors import NoBrokersAvailable, PenstockError

    try:
        ACTIONS[options.given(ACTIONS)](options)
    except NoBrokersAvailable:
        raise
    except PenstockError as problem:
        print(f"Error while executing ACL command: {message_of(problem)}")
        return FAILED
    return 0


def _add(options: Options) -> None:
    from penstock.cli.kafka.admin import with_admin
    from penstock.client.admin.acls import AclFilter, AclsAdmin, PatternType

    entries = _entries(options)
    for _, _, pattern in entries:
        if pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
            raise UsageError(
                f"A '--resource-pattern-type' value of '{pattern.name}' is not valid when adding acls."
            )
    if not all(entries.values()):
        raise UsageError(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
        )

    async def work(admin: AclsAdmin) -> None:
        for resource, acls in entries.items():
            kind, name, pattern = resource
            matching = AclFilter(resource_type=kind, resource_name=name, pattern=pattern)
            existing = set(await admin.describe_acls(matching))
            for acl in acls:
                if acl in existing:
                    entry = _entry(acl).strip()
                    print(f"Acl (pattern={_resource(resource)}, entry={entry}) already exists.")
            if new := [acl for acl in acls if acl not in existing]:
                lines = "\n".join(map(_entry, new))
                print(f"Adding ACLs for resource `{_resource(resource)}`: \n {lines} \n")
                await admin.create_acls(new)

    with_admin(options, AclsAdmin, work)


def _list(options: Options) -> None:
    from penstock.cli.kafka.admin import with_admin
    from penstock.client.admin.acls import AclFilter, AclsAdmin

    filters = [
        AclFilter(resource_type=kind, resource_name=name, pattern=pattern)
        for kind, name, pattern in _filters(options)
    ] or [AclFilter()]

    async def work(admin: AclsAdmin) -> list[Acl]:
        return sorted({acl for matching in filters for acl in await admin.describe_acls(matching)})

    found = with_admin(options, AclsAdmin, work)
    if not options.has("principal"):
        _print_acls(found)
        return
    for principal in options.all("principal"):
        print(f"ACLs for principal `{principal}`")
        _print_acls(acl for acl in found if acl.principal == principal)


def _print_acls(acls: Iterable[Acl]) -> None:
    by_resource: dict[Filter, list[Acl]] = {}
    for acl in acls:
        by_resource.setdefault((acl.resource_type, acl.resource_name, acl.pattern), []).append(acl)
    for resource, entries in by_resource.items():
        lines = "\n".join(map(_entry, entries))
        print(f"Current ACLs for resource `{_resource(resource)}`:\n{lines}\n")


def _remove(options: Options) -> None:
    from penstock.cli.kafka.admin import with_admin
    from penstock.client.admin.acls import AclFilter, AclsAdmin

    wanted: list[AclFilter | Acl] = []
    for resource, acls in _entries(options).items():
        lines = "\n".join(map(_entry, acls))
        question = (
            f"Are you sure you want to remove ACLs: \n {lines} \n from resource filter `{_resource(resource)}`? (y/n)"
            if acls
            else f"Are you sure you want to delete all ACLs for resource filter `{_resource(resource)}`? (y/n)"
        )
        if _is_confirmed(options, question):
            kind, name, pattern = resource
            wanted += acls or [AclFilter(resource_type=kind, resource_name=name, pattern=pattern)]
    if wanted:
        with_admin(options, AclsAdmin, lambda admin: admin.delete_acls(wanted))


def _is_confirmed(options: Options, question: str) -> bool:
    if options.has("force"):
        return True
    print(question)
    return sys.stdin.readline().strip().lower() == "y"


ACTIONS = {"add": _add, "list": _list, "remove": _remove}


def _filters(options: Options) -> list[Filter]:
    from penstock.client.admin.acls import CLUSTER_NAME, AclResourceType, PatternType

    try:
        pattern = PatternType[options.text("resource-pattern-type").upper()]
    except KeyError:
        raise UsageError("resource-pattern-type must be literal, prefixed, any or match") from None
    kinds = {
        "topic": AclResourceType.TOPIC,
        "group": AclResourceType.GROUP,
        "transactional-id": AclResourceType.TRANSACTIONAL_ID,
        "delegation-token": AclResourceType.DELEGATION_TOKEN,
        "user-principal": AclResourceType.USER,
    }
    filters: list[Filter] = [
        (kind, name.strip(), pattern) for flag, kind in kinds.items() for name in options.all(flag)
    ]
    if options.has("cluster") or (options.has("idempotent") and not options.has("producer")):
        filters.append((AclResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL))
    return filters


def _entries(options: Options) -> Entries:
    """The ACLs to add or remove, by resource; none for a resource without a principal."""
    from penstock.client.admin.acls import CLUSTER_NAME, AclOperation, AclResourceType, PatternType

    filters = _filters(options)
    if not filters:
        raise UsageError(
            "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
            "--delegation-token <Delegation Token ID>"
        )
    entries: Entries = {}
    if not options.has("producer") and not options.has("consumer"):
        operations = [_operation(name) for name in options.all("operation")]
        return {resource: _acls(options, resource, operations) for resource in filters}
    topic_id = (AclResourceType.TOPIC, AclResourceType.TRANSACTIONAL_ID)
    write, describe, create, read = (
        AclOperation.WRITE,
        AclOperation.DESCRIBE,
        AclOperation.CREATE,
        AclOperation.READ,
    )
    for resource in filters:
        needed: list[AclOperation] = []
        if options.has("producer") and resource[0] in topic_id:
            needed += [write, describe, *([create] if resource[0] is AclResourceType.TOPIC else [])]
        if options.has("consumer") and resource[0] in (AclResourceType.TOPIC, AclResourceType.GROUP):
            needed += [read, *([describe] if resource[0] is AclResourceType.TOPIC else [])]
        if needed:
            entries[resource] = _acls(options, resource, list(dict.fromkeys(needed)))
    if options.has("producer") and options.has("idempotent"):
        cluster = (AclResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
        entries[cluster] = _acls(options, cluster, [AclOperation.IDEMPOTENT_WRITE])
    return entries


def _acls(options: Options, resource: Filter, operations: Sequence[AclOperation]) -> list[Acl]:
    from penstock.client.admin.acls import Acl, AclPermission
    from penstock.client.errors import BadArgument

    acls: list[Acl] = []
    kind, name, pattern = resource
    for verb, permission in (("allow", AclPermission.ALLOW), ("deny", AclPermission.DENY)):
        hosts = options.all(f"{verb}-host") or ["*"]
        for principal in options.all(f"{verb}-principal"):
            if ":" not in principal:
                raise BadArgument(
                    f"expected a string in format principalType:principalName but got {principal}"
                )
            acls += [
                Acl(
                    resource_type=kind,
                    resource_name=name,
                    pattern=pattern,
                    principal=principal.strip(),
                    host=host.strip(),
                    operation=operation,
                    permission=permission,
                )
                for host in hosts
                for operation in operations
            ]
    return acls


def _operation(name: str) -> AclOperation:
    from penstock.client.admin.operations import AclOperation

    known: Mapping[str, AclOperation] = {each.name.replace("_", ""): each for each in AclOperation}
    found = known.get(name.strip().upper().replace("_", ""))
    if found is None or found in (AclOperation.UNKNOWN, AclOperation.ANY):
        raise UsageError(f"{name} is not an operation")
    return found


def _resource(resource: Filter) -> str:
    kind, name, pattern = resource
    return f"ResourcePattern(resourceType={kind.name}, name={name}, patternType={pattern.name})"


def _entry(acl: Acl) -> str:
    return (
        f"\t(principal={acl.principal}, host={acl.host}, operation={acl.operation.name}, "
        f"permissionType={acl.permission.name})"
    )
