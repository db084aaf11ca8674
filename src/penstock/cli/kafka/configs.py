"""`kafka-configs.sh`: settings of topics, brokers and groups, quotas, and SCRAM credentials of users."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from penstock.cli.failures import FAILED
from penstock.cli.flags import OneOf, UsageError
from penstock.cli.kafka.tool import (
    BOOTSTRAP_CONTROLLER,
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    CommandFailed,
    Options,
    Tool,
    flag,
)

if TYPE_CHECKING:
    from penstock.cli.kafka.config_entities import ConfigsTool

ACTIONS = ("alter", "describe")
CHANGES = ("add-config", "add-config-file", "delete-config")

TOOL = Tool(
    "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip, client-metrics "
    "or group",
    BOOTSTRAP_SERVER,
    BOOTSTRAP_CONTROLLER,
    COMMAND_CONFIG,
    flag("alter", "Alter the configuration for the entity."),
    flag("describe", "List configs for the given entity."),
    flag("all", "List all configs, including defaults."),
    flag(
        "entity-type",
        "topics, clients, users, brokers, broker-loggers, ips, client-metrics or groups.",
        "String",
    ),
    flag("entity-name", "Name of the entity.", "String"),
    flag("entity-default", "Default entity name for clients, users, brokers or ips."),
    flag("add-config", "Key value pairs of configs to add: k1=v1,k2=[v1,v2]", "String"),
    flag("add-config-file", "A properties file with configs to add.", "String"),
    flag("delete-config", "Config keys to remove: k1,k2", "String"),
    flag("force", "Suppress console prompts."),
    flag("topic", "The topic's name.", "String"),
    flag("client", "The client's id.", "String"),
    flag("client-defaults", "The config defaults for all clients."),
    flag("user", "The user's principal name.", "String"),
    flag("user-defaults", "The config defaults for all users."),
    flag("broker", "The broker's ID.", "String"),
    flag("broker-defaults", "The config defaults for all brokers."),
    flag("broker-logger", "The broker's ID for its logger config.", "String"),
    flag("ip", "The IP address.", "String"),
    flag("ip-defaults", "The config defaults for all IPs."),
    flag("client-metrics", "The client metrics config resource name.", "String"),
    flag("group", "The group's ID.", "String"),
    one_of=[OneOf(ACTIONS, "Command must include exactly one action: --describe, --alter")],
)

NAMED = {
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "ip": "ips",
    "client-metrics": "client-metrics",
    "group": "groups",
}
DEFAULTS = {
    "client-defaults": "clients",
    "user-defaults": "users",
    "broker-defaults": "brokers",
    "ip-defaults": "ips",
}
TYPES = frozenset(NAMED.values())
DEFAULT_NAME = ""


class Entity(NamedTuple):
    type: str
    name: str | None
    """Empty: the default entity. None: all entities."""


def run(options: Options) -> int:
    from penstock.cli.kafka.admin import message_of, with_admin
    from penstock.cli.kafka.config_entities import ConfigsTool
    from penstock.client.errors import NoBrokersAvailable, PenstockError

    action = options.given(ACTIONS)
    entities = _entities(options)
    if action == "alter" and any(entity.name is None for entity in entities):
        raise UsageError(
            "An entity name must be specified with --alter of " + ",".join(e.type for e in entities)
        )
    is_change = any(options.has(change) for change in CHANGES)
    if action == "alter" and not is_change:
        raise UsageError(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )
    if action == "describe" and is_change:
        raise UsageError("Only one of --describe or --add-config, --delete-config may be specified")
    try:
        added, deleted = _added(options), _deleted(options)

        async def work(admin: ConfigsTool) -> None:
            if action == "alter":
                await admin.alter(entities, added, deleted)
            else:
                await admin.describe(entities, describes_all=options.has("all"))

        with_admin(options, ConfigsTool, work)
    except NoBrokersAvailable:
        raise
    except CommandFailed as problem:
        print(problem, file=sys.stderr)
        return FAILED
    except PenstockError as problem:
        print(
            f"Error while executing config command with args '{' '.join(options.arguments)}'", file=sys.stderr
        )
        print(message_of(problem), file=sys.stderr)
        return FAILED
    return 0


def _entities(options: Options) -> list[Entity]:
    """Types and names are matched by their order; `--entity-default` counts as a name."""
    types = options.all("entity-type")
    names: list[str] = []
    given = iter(options.all("entity-name"))
    for word in options.arguments:
        flag = word.partition("=")[0]
        if flag == "--entity-default":
            names.append(DEFAULT_NAME)
        elif flag == "--entity-name":
            names.append(next(given))
    for flag, kind in NAMED.items():
        if options.has(flag):
            types.append(kind)
            names.append(options.text(flag))
    for flag, kind in DEFAULTS.items():
        if options.has(flag):
            types.append(kind)
            names.append(DEFAULT_NAME)
    if not types:
        raise UsageError("At least one entity type must be specified")
    for kind in types:
        if kind not in TYPES:
            raise UsageError(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(sorted(TYPES))}"
            )
    if len(set(types)) < len(types) or len(names) > len(types):
        raise UsageError(f"Duplicate entity type(s) specified: {','.join(types)}")
    if len(types) > 1 and not set(types) <= {"users", "clients"}:
        raise UsageError("Only 'users' and 'clients' entity types may be specified together")
    padded: list[str | None] = [*names, *([None] * (len(types) - len(names)))]
    return [Entity(kind, name) for kind, name in zip(types, padded, strict=True)]


def _added(options: Options) -> dict[str, str]:
    """`k1=v1,k2=[v1,v2]`: commas in brackets belong to a value."""
    added: dict[str, str] = {}
    if options.has("add-config-file"):
        from penstock.cli.connection import read_properties

        added |= read_properties(options.text("add-config-file"))
    outside = r"(?=[^\]]*(?:\[|$))"
    for pair in re.split("," + outside, options.get("add-config") or "") if options.has("add-config") else ():
        parts = re.split(r"\s*=\s*" + outside, pair)
        if len(parts) != 2:
            raise CommandFailed(
                'requirement failed: Invalid entity config: all configs to be added must be in the format "key=val".'
            )
        added[parts[0].strip()] = re.sub(r"\[?\]?", "", parts[1]).strip()
    for key in added:
        if not re.fullmatch(r"[a-zA-Z0-9._-]*", key):
            raise CommandFailed(f"Invalid character found for config key: {key}")
    return added


def _deleted(options: Options) -> list[str]:
    return [name.strip() for text in options.all("delete-config") for name in text.split(",")]
