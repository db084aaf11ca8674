"""`kafka-acls.sh`: list, add and remove access control entries."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.cli.failures import FAILED
from penstock.cli.kafka.flags import BOOTSTRAP_SERVER, COMMAND_CONFIG, BadFlags, Flag, Flags, Said, run_tool

if TYPE_CHECKING:
    from penstock.client.admin.acls import Acl, AclFilter, AclOperation, AclResourceType, PatternType

FLAGS = Flags(
    "This tool helps to manage acls on kafka.",
    BOOTSTRAP_SERVER,
    Flag("bootstrap-controller", "The controllers to connect to.", "controller to connect to"),
    COMMAND_CONFIG,
    Flag("add", "Add ACLs."),
    Flag("remove", "Remove ACLs."),
    Flag("list", "List ACLs for the specified resource, or all."),
    Flag("topic", "Topic to which ACLs should be added or removed; * is all.", "topic"),
    Flag("group", "Consumer group; * is all.", "group"),
    Flag("transactional-id", "Transactional id; * is all.", "transactional-id"),
    Flag("delegation-token", "Delegation token; * is all.", "delegation-token"),
    Flag("user-principal", "A user, for delegation tokens; * is all.", "user-principal"),
    Flag("cluster", "The cluster itself."),
    Flag("idempotent", "Enable idempotence for the producer."),
    Flag("resource-pattern-type", "How names are meant.", "literal, prefixed, any, match", default="literal"),
    Flag("operation", "Operation that is allowed or denied.", "operation", default="All"),
    Flag("allow-principal", "principalType:name to allow.", "allow-principal"),
    Flag("deny-principal", "principalType:name to deny.", "deny-principal"),
    Flag("allow-host", "Host from which it is allowed.", "allow-host"),
    Flag("deny-host", "Host from which it is denied.", "deny-host"),
    Flag("principal", "Whose ACLs to list.", "principal"),
    Flag("producer", "What a producer needs: WRITE, DESCRIBE and CREATE on topics."),
    Flag("consumer", "What a consumer needs: READ and DESCRIBE on topics, READ on groups."),
    Flag("force", "Assume yes to all questions."),
)

Filter = tuple["AclResourceType", str, "PatternType"]
Entries = dict[Filter, list["Acl"]]


def run(arguments: Sequence[str]) -> int:
    return run_tool(FLAGS, arguments, _run)


def _run(said: Said) -> int:
    from penstock.cli.kafka.tools import chosen, message_of
    from penstock.client.errors import NoBrokersAvailable, PenstockError

    action = chosen(
        said, ("add", "list", "remove"), "Command must include exactly one action: --list, --add, --remove. "
    )
    try:
        {"add": _add, "list": _list, "remove": _remove}[action](said)
    except NoBrokersAvailable:
        raise
    except PenstockError as problem:
        print(f"Error while executing ACL command: {message_of(problem)}")
        return FAILED
    return 0


def _add(said: Said) -> None:
    from penstock.cli.kafka.tools import ask_cluster
    from penstock.client.admin.acls import AclFilter, AclsAdmin, PatternType

    entries = _entries(said)
    for _, _, pattern in entries:
        if pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
            raise BadFlags(
                f"A '--resource-pattern-type' value of '{pattern.name}' is not valid when adding acls."
            )
    if not all(entries.values()):
        raise BadFlags(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
        )

    async def work(admin: AclsAdmin) -> None:
        for resource, acls in entries.items():
            kind, name, pattern = resource
            matching = AclFilter(resource_type=kind, resource_name=name, pattern=pattern)
            there = set(await admin.describe_acls(matching))
            for acl in acls:
                if acl in there:
                    entry = _entry(acl).strip()
                    print(f"Acl (pattern={_resource(resource)}, entry={entry}) already exists.")
            if new := [acl for acl in acls if acl not in there]:
                told = "\n".join(map(_entry, new))
                print(f"Adding ACLs for resource `{_resource(resource)}`: \n {told} \n")
                await admin.create_acls(new)

    ask_cluster(said, AclsAdmin, work)


def _list(said: Said) -> None:
    from penstock.cli.kafka.tools import ask_cluster
    from penstock.client.admin.acls import AclFilter, AclsAdmin

    filters = [
        AclFilter(resource_type=kind, resource_name=name, pattern=pattern)
        for kind, name, pattern in _filters(said)
    ] or [AclFilter()]

    async def work(admin: AclsAdmin) -> list[Acl]:
        return sorted({acl for matching in filters for acl in await admin.describe_acls(matching)})

    found = ask_cluster(said, AclsAdmin, work)
    if not said.has("principal"):
        _print_acls(found)
        return
    for principal in said.all("principal"):
        print(f"ACLs for principal `{principal}`")
        _print_acls(acl for acl in found if acl.principal == principal)


def _print_acls(acls: Iterable[Acl]) -> None:
    by_resource: dict[Filter, list[Acl]] = {}
    for acl in acls:
        by_resource.setdefault((acl.resource_type, acl.resource_name, acl.pattern), []).append(acl)
    for resource, entries in by_resource.items():
        told = "\n".join(map(_entry, entries))
        print(f"Current ACLs for resource `{_resource(resource)}`:\n{told}\n")


def _remove(said: Said) -> None:
    from penstock.cli.kafka.tools import ask_cluster
    from penstock.client.admin.acls import AclFilter, AclsAdmin

    wanted: list[AclFilter | Acl] = []
    for resource, acls in _entries(said).items():
        told = "\n".join(map(_entry, acls))
        question = (
            f"Are you sure you want to remove ACLs: \n {told} \n from resource filter `{_resource(resource)}`? (y/n)"
            if acls
            else f"Are you sure you want to delete all ACLs for resource filter `{_resource(resource)}`? (y/n)"
        )
        if _is_confirmed(said, question):
            kind, name, pattern = resource
            wanted += acls or [AclFilter(resource_type=kind, resource_name=name, pattern=pattern)]
    if wanted:
        ask_cluster(said, AclsAdmin, lambda admin: admin.delete_acls(wanted))


def _is_confirmed(said: Said, question: str) -> bool:
    if said.has("force"):
        return True
    print(question)
    return sys.stdin.readline().strip().lower() == "y"


def _filters(said: Said) -> list[Filter]:
    from penstock.client.admin.acls import CLUSTER_NAME, AclResourceType, PatternType

    try:
        pattern = PatternType[said.text("resource-pattern-type").upper()]
    except KeyError:
        raise BadFlags("resource-pattern-type must be literal, prefixed, any or match") from None
    kinds = {
        "topic": AclResourceType.TOPIC,
        "group": AclResourceType.GROUP,
        "transactional-id": AclResourceType.TRANSACTIONAL_ID,
        "delegation-token": AclResourceType.DELEGATION_TOKEN,
        "user-principal": AclResourceType.USER,
    }
    filters: list[Filter] = [
        (kind, name.strip(), pattern) for flag, kind in kinds.items() for name in said.all(flag)
    ]
    if said.has("cluster") or (said.has("idempotent") and not said.has("producer")):
        filters.append((AclResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL))
    return filters


def _entries(said: Said) -> Entries:
    """What is to be added or removed, by resource; nothing for a resource where nobody is named."""
    from penstock.client.admin.acls import CLUSTER_NAME, AclOperation, AclResourceType, PatternType

    filters = _filters(said)
    if not filters:
        raise BadFlags(
            "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
            "--delegation-token <Delegation Token ID>"
        )
    entries: Entries = {}
    if not said.has("producer") and not said.has("consumer"):
        operations = [_operation(name) for name in said.all("operation")]
        return {resource: _acls(said, resource, operations) for resource in filters}
    topic_id = (AclResourceType.TOPIC, AclResourceType.TRANSACTIONAL_ID)
    write, describe, create, read = (
        AclOperation.WRITE,
        AclOperation.DESCRIBE,
        AclOperation.CREATE,
        AclOperation.READ,
    )
    for resource in filters:
        needed: list[AclOperation] = []
        if said.has("producer") and resource[0] in topic_id:
            needed += [write, describe, *([create] if resource[0] is AclResourceType.TOPIC else [])]
        if said.has("consumer") and resource[0] in (AclResourceType.TOPIC, AclResourceType.GROUP):
            needed += [read, *([describe] if resource[0] is AclResourceType.TOPIC else [])]
        if needed:
            entries[resource] = _acls(said, resource, list(dict.fromkeys(needed)))
    if said.has("producer") and said.has("idempotent"):
        cluster = (AclResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
        entries[cluster] = _acls(said, cluster, [AclOperation.IDEMPOTENT_WRITE])
    return entries


def _acls(said: Said, resource: Filter, operations: Sequence[AclOperation]) -> list[Acl]:
    from penstock.client.admin.acls import Acl, AclPermission
    from penstock.client.errors import BadArgument

    acls: list[Acl] = []
    kind, name, pattern = resource
    for flag, permission in (("allow", AclPermission.ALLOW), ("deny", AclPermission.DENY)):
        hosts = said.all(f"{flag}-host") or ["*"]
        for principal in said.all(f"{flag}-principal"):
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
        raise BadFlags(f"{name} is not an operation")
    return found


def _resource(resource: Filter) -> str:
    kind, name, pattern = resource
    return f"ResourcePattern(resourceType={kind.name}, name={name}, patternType={pattern.name})"


def _entry(acl: Acl) -> str:
    return (
        f"\t(principal={acl.principal}, host={acl.host}, operation={acl.operation.name}, "
        f"permissionType={acl.permission.name})"
    )
