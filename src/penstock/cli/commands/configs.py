"""`penstock configs`: configs of topics, brokers, groups, broker loggers and client metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from penstock.cli.connection import Connection
from penstock.cli.declare import Group, argument, option
from penstock.cli.output import Column, Output

if TYPE_CHECKING:
    from penstock.client.admin.configs import ConfigEntry, ConfigResource

command = Group(
    help="Show and change configs of topics, brokers, groups and more, while the cluster runs.",
    kafka="kafka-configs",
)

Kind = Literal["topic", "broker", "brokers", "broker-logger", "group", "client-metrics"]

KIND = argument(
    metavar="KIND",
    help="topic, broker, brokers (the default of all brokers), broker-logger, group or client-metrics.",
)
NAME = argument(metavar="NAME", help="The name or broker id; none for brokers.", complete="topic")


@command.command(
    "describe",
    examples=[
        "penstock configs describe topic orders",
        "penstock configs describe broker 1 --all --json",
        "penstock configs describe topic orders retention.ms --docs",
    ],
)
def describe(
    kind: Annotated[Kind, KIND],
    name: Annotated[str | None, NAME] = None,
    settings: Annotated[
        tuple[str, ...], argument(metavar="SETTING...", help="Only these settings; a prefix selects several.")
    ] = (),
    *,
    connection: Connection,
    output: Output,
    everything: Annotated[bool, option("--all", help="Include defaults.")] = False,
    docs: Annotated[bool, option("--docs", help="Show the documentation of each setting.")] = False,
) -> None:
    """Show the configs of one resource: those set on it, or all."""
    from penstock.client.admin.configs import ConfigsAdmin

    resource, prefixes = read_resource(kind, name, settings)
    config = connection.with_admin(
        ConfigsAdmin,
        lambda admin: admin.describe_config(resource, synonyms=True, documentation=docs),
    )
    shown = [
        entry
        for entry in sorted(config.values(), key=lambda entry: entry.name)
        if (prefixes and entry.name.startswith(prefixes))
        or (not prefixes and (everything or _is_own(entry, resource)))
    ]
    columns: list[str | Column] = ["setting", "value", "source", "read_only"]
    output.table(
        [*columns, "documentation"] if docs else columns,
        [
            (
                entry.name,
                "(secret)" if entry.is_sensitive and entry.value is None else entry.value,
                entry.source.name.lower(),
                entry.is_read_only,
                *([entry.documentation] if docs else []),
            )
            for entry in shown
        ],
        empty=f"Nothing is set on {resource}; --all shows the defaults.",
    )


def _is_own(entry: ConfigEntry, resource: ConfigResource) -> bool:
    """Whether the value was set on this resource itself."""
    from penstock.client.admin.configs import ConfigSource, ResourceType

    if resource.type is ResourceType.BROKER_LOGGER:
        return True
    own = {
        ResourceType.TOPIC: ConfigSource.TOPIC,
        ResourceType.BROKER: ConfigSource.BROKER if resource.name else ConfigSource.ALL_BROKERS,
        ResourceType.GROUP: ConfigSource.GROUP,
        ResourceType.CLIENT_METRICS: ConfigSource.CLIENT_METRICS,
    }
    return entry.source is own[resource.type]


@command.command(
    "alter",
    examples=[
        "penstock configs alter topic orders --set retention.ms=86400000 --set cleanup.policy=compact,delete",
        "penstock configs alter broker 1 --unset log.cleaner.threads",
        "penstock configs alter brokers --set message.max.bytes=2000000 --dry-run",
    ],
)
def alter(
    kind: Annotated[Kind, KIND],
    name: Annotated[str | None, NAME] = None,
    *,
    connection: Connection,
    output: Output,
    values: Annotated[
        tuple[str, ...], option("--set", "-s", metavar="KEY=VALUE", help="A new value. May be repeated.")
    ] = (),
    unset: Annotated[
        tuple[str, ...], option("--unset", "-u", metavar="KEY", help="Restore the default. May be repeated.")
    ] = (),
    append: Annotated[
        tuple[str, ...], option("--append", metavar="KEY=VALUE", help="Add to a list. May be repeated.")
    ] = (),
    subtract: Annotated[
        tuple[str, ...],
        option("--subtract", metavar="KEY=VALUE", help="Remove from a list. May be repeated."),
    ] = (),
    dry_run: Annotated[bool, option("--dry-run", help="Validate only; change nothing.")] = False,
) -> None:
    """Change configs of one resource. Other configs stay as they are."""
    from penstock.cli.failures import Misuse
    from penstock.cli.values import read_pairs
    from penstock.client.admin.configs import ConfigsAdmin

    resource, _ = read_resource(kind, name, ())
    if not (values or unset or append or subtract):
        raise Misuse("nothing to change: give --set key=value, --unset key, --append or --subtract key=value")
    connection.with_admin(
        ConfigsAdmin,
        lambda admin: admin.alter_config(
            resource,
            read_pairs(values, option="--set"),
            unset=unset,
            append=read_pairs(append, option="--append"),
            subtract=read_pairs(subtract, option="--subtract"),
            validate_only=dry_run,
        ),
    )
    done = "valid, not altered" if dry_run else "altered"
    output.result(
        f"{done}: configs of {resource}",
        {"kind": kind, "name": resource.name, "is_done": not dry_run},
    )


@command.command("list", examples=["penstock configs list", "penstock configs list --json"])
def list_resources(*, connection: Connection, output: Output) -> None:
    """List all resources that can have configs."""
    from penstock.client.admin.configs import ConfigsAdmin

    listed = connection.with_admin(ConfigsAdmin, lambda admin: admin.list_config_resources())
    output.table(
        ["kind", "name"],
        [(resource.type.name.lower().replace("_", "-"), resource.name) for resource in listed],
        empty="No resources have configs.",
    )


def read_resource(
    kind: str, name: str | None, rest: tuple[str, ...] | list[str]
) -> tuple[ConfigResource, tuple[str, ...]]:
    """The resource; `brokers` has no name, so the word in its place is a setting."""
    from penstock.cli.failures import Misuse
    from penstock.client.admin.configs import ConfigResource, ResourceType

    if kind == "brokers":
        return ConfigResource.all_brokers(), tuple([name, *rest] if name is not None else rest)
    if name is None:
        raise Misuse(f"name the {kind}: penstock configs describe {kind} NAME")
    if kind in ("broker", "broker-logger") and not name.isdecimal():
        raise Misuse(f"{name} is not a broker id; `penstock cluster describe` lists the brokers")
    return ConfigResource(ResourceType[kind.upper().replace("-", "_")], name), tuple(rest)
