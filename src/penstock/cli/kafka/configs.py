"""`kafka-configs.sh`: settings of topics, brokers and groups, quotas, and SCRAM credentials of users."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.cli.failures import FAILED
from penstock.cli.kafka.flags import BOOTSTRAP_SERVER, COMMAND_CONFIG, BadFlags, Flag, Flags, Said, run_tool

if TYPE_CHECKING:
    from penstock.cli.kafka.config_entities import ConfigsTool

FLAGS = Flags(
    "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip, client-metrics "
    "or group",
    BOOTSTRAP_SERVER,
    Flag("bootstrap-controller", "The controllers to connect to.", "controller to connect to"),
    COMMAND_CONFIG,
    Flag("alter", "Alter the configuration for the entity."),
    Flag("describe", "List configs for the given entity."),
    Flag("all", "List all configs, not only those of the entity itself."),
    Flag(
        "entity-type",
        "topics, clients, users, brokers, broker-loggers, ips, client-metrics or groups.",
        "String",
    ),
    Flag("entity-name", "Name of the entity.", "String"),
    Flag("entity-default", "Default entity name for clients, users, brokers or ips."),
    Flag("add-config", "Key value pairs of configs to add: k1=v1,k2=[v1,v2]", "String"),
    Flag("add-config-file", "A properties file with configs to add.", "String"),
    Flag("delete-config", "Config keys to remove: k1,k2", "String"),
    Flag("force", "Suppress console prompts."),
    Flag("topic", "The topic's name.", "String"),
    Flag("client", "The client's id.", "String"),
    Flag("client-defaults", "The config defaults for all clients."),
    Flag("user", "The user's principal name.", "String"),
    Flag("user-defaults", "The config defaults for all users."),
    Flag("broker", "The broker's ID.", "String"),
    Flag("broker-defaults", "The config defaults for all brokers."),
    Flag("broker-logger", "The broker's ID for its logger config.", "String"),
    Flag("ip", "The IP address.", "String"),
    Flag("ip-defaults", "The config defaults for all IPs."),
    Flag("client-metrics", "The client metrics config resource name.", "String"),
    Flag("group", "The group's ID.", "String"),
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


class CommandFailed(Exception):
    """What cannot be done, in Kafka's words."""


class Entity(NamedTuple):
    type: str
    name: str | None
    """Empty for the default, None for all."""


def run(arguments: Sequence[str]) -> int:
    return run_tool(FLAGS, arguments, lambda said: _run(said, arguments))


def _run(said: Said, arguments: Sequence[str]) -> int:
    from penstock.cli.kafka.config_entities import ConfigsTool
    from penstock.cli.kafka.tools import ask_cluster, chosen, message_of
    from penstock.client.errors import NoBrokersAvailable, PenstockError

    action = chosen(
        said, ("alter", "describe"), "Command must include exactly one action: --describe, --alter"
    )
    entities = _entities(said, arguments)
    if action == "alter" and any(entity.name is None for entity in entities):
        raise BadFlags(
            "An entity name must be specified with --alter of " + ",".join(e.type for e in entities)
        )
    changes = ("add-config", "add-config-file", "delete-config")
    if action == "alter" and not any(said.has(flag) for flag in changes):
        raise BadFlags(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )
    if action == "describe" and any(said.has(flag) for flag in changes):
        raise BadFlags("Only one of --describe or --add-config, --delete-config may be specified")
    try:
        added, deleted = _added(said), _deleted(said)

        async def work(admin: ConfigsTool) -> None:
            if action == "alter":
                await admin.alter(entities, added, deleted)
            else:
                await admin.describe(entities, describes_all=said.has("all"))

        ask_cluster(said, ConfigsTool, work)
    except NoBrokersAvailable:
        raise
    except CommandFailed as problem:
        print(problem, file=sys.stderr)
        return FAILED
    except PenstockError as problem:
        print(f"Error while executing config command with args '{' '.join(arguments)}'", file=sys.stderr)
        print(message_of(problem), file=sys.stderr)
        return FAILED
    return 0


def _entities(said: Said, arguments: Sequence[str]) -> list[Entity]:
    """Types and names belong together by their order, which `--entity-default` shares with the names."""
    types = said.all("entity-type")
    names: list[str] = []
    given = iter(said.all("entity-name"))
    for word in arguments:
        flag = word.partition("=")[0]
        if flag == "--entity-default":
            names.append(DEFAULT_NAME)
        elif flag == "--entity-name":
            names.append(next(given))
    for flag, kind in NAMED.items():
        if said.has(flag):
            types.append(kind)
            names.append(said.text(flag))
    for flag, kind in DEFAULTS.items():
        if said.has(flag):
            types.append(kind)
            names.append(DEFAULT_NAME)
    if not types:
        raise BadFlags("At least one entity type must be specified")
    for kind in types:
        if kind not in TYPES:
            raise BadFlags(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(sorted(TYPES))}"
            )
    if len(set(types)) < len(types) or len(names) > len(types):
        raise BadFlags(f"Duplicate entity type(s) specified: {','.join(types)}")
    if len(types) > 1 and not set(types) <= {"users", "clients"}:
        raise BadFlags("Only 'users' and 'clients' entity types may be specified together")
    padded: list[str | None] = [*names, *([None] * (len(types) - len(names)))]
    return [Entity(kind, name) for kind, name in zip(types, padded, strict=True)]


def _added(said: Said) -> dict[str, str]:
    """`k1=v1,k2=[v1,v2]`: commas in brackets belong to a value."""
    added: dict[str, str] = {}
    if said.has("add-config-file"):
        from penstock.cli.connection import read_properties

        added |= read_properties(said.text("add-config-file"))
    outside = r"(?=[^\]]*(?:\[|$))"
    for pair in re.split("," + outside, said.get("add-config") or "") if said.has("add-config") else ():
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


def _deleted(said: Said) -> list[str]:
    return [name.strip() for text in said.all("delete-config") for name in text.split(",")]
