"""`penstock configs`: settings of topics, brokers, groups, loggers and client metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from penstock.cli.connection import Connection
from penstock.cli.declare import Argument, Group, Option
from penstock.cli.output import Column, Output

if TYPE_CHECKING:
    from penstock.client.admin.configs import ConfigEntry, ConfigResource

command = Group(
    help="Tell and change settings of topics, brokers, groups and more, while the cluster runs.",
    kafka="kafka-configs",
)

Kind = Literal["topic", "broker", "brokers", "broker-logger", "group", "client-metrics"]

KIND = Argument(
    metavar="KIND",
    help="topic, broker, brokers (the defaults of all), broker-logger, group or client-metrics.",
)
NAME = Argument(metavar="NAME", help="Its name or number; nothing for brokers.", complete="topic")


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
        tuple[str, ...], Argument(metavar="SETTING...", help="Only these settings, or those that begin so.")
    ] = (),
    *,
    connection: Connection,
    output: Output,
    everything: Annotated[bool, Option("--all", help="Also what is as it is by default.")] = False,
    docs: Annotated[bool, Option("--docs", help="Tell what each setting means.")] = False,
) -> None:
    """Tell the settings of one thing: those that were set for it, or all."""
    from penstock.cli.asking import ask
    from penstock.client.admin.configs import ConfigsAdmin

    resource, prefixes = read_resource(kind, name, settings)
    config = ask(
        connection.settings(),
        ConfigsAdmin,
        lambda admin: admin.describe_config(resource, synonyms=True, documentation=docs),
    )
    shown = [
        entry
        for entry in sorted(config.values(), key=lambda entry: entry.name)
        if (prefixes and entry.name.startswith(prefixes))
        or (not prefixes and (everything or _is_own(entry, resource)))
    ]
    columns: list[str | Column] = ["setting", "value", "source", Column("read_only", "read only")]
    output.table(
        [*columns, Column("documentation", "meaning")] if docs else columns,
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
        empty=f"Nothing was set for {resource}; --all tells the defaults.",
    )


def _is_own(entry: ConfigEntry, resource: ConfigResource) -> bool:
    """Whether the value was set for this very thing."""
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
        tuple[str, ...], Option("--set", "-s", metavar="KEY=VALUE", help="A new value. May be repeated.")
    ] = (),
    unset: Annotated[
        tuple[str, ...], Option("--unset", "-u", metavar="KEY", help="Back to the default. May be repeated.")
    ] = (),
    append: Annotated[
        tuple[str, ...], Option("--append", metavar="KEY=VALUE", help="Add to a list. May be repeated.")
    ] = (),
    subtract: Annotated[
        tuple[str, ...], Option("--subtract", metavar="KEY=VALUE", help="Take from a list. May be repeated.")
    ] = (),
    dry_run: Annotated[bool, Option("--dry-run", help="Only tell whether it could be done.")] = False,
) -> None:
    """Change settings of one thing. What is not named stays as it is."""
    from penstock.cli.asking import ask, read_pairs
    from penstock.cli.compaction import note_compaction
    from penstock.cli.failures import Misuse
    from penstock.client.admin.configs import ConfigsAdmin

    resource, _ = read_resource(kind, name, ())
    if not (values or unset or append or subtract):
        raise Misuse("say what to change: --set key=value, --unset key, --append or --subtract key=value")
    ask(
        connection.settings(),
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
    if kind == "topic":
        note_compaction(read_pairs((*values, *append), option="--set"))
    done = "could be altered so" if dry_run else "altered"
    output.result(
        f"{done}: settings of {resource}",
        {"kind": kind, "name": resource.name, "is_done": not dry_run},
    )


@command.command("list", examples=["penstock configs list", "penstock configs list --json"])
def list_resources(*, connection: Connection, output: Output) -> None:
    """Tell which things can have settings: all there are."""
    from penstock.cli.asking import ask
    from penstock.client.admin.configs import ConfigsAdmin

    listed = ask(connection.settings(), ConfigsAdmin, lambda admin: admin.list_config_resources())
    output.table(
        ["kind", "name"],
        [(resource.type.name.lower().replace("_", "-"), resource.name) for resource in listed],
        empty="There is nothing that has settings.",
    )


def read_resource(
    kind: str, name: str | None, rest: tuple[str, ...] | list[str]
) -> tuple[ConfigResource, tuple[str, ...]]:
    """What is meant; `brokers` has no name, so what stands there is a setting already."""
    from penstock.cli.failures import Misuse
    from penstock.client.admin.configs import ConfigResource, ResourceType

    if kind == "brokers":
        return ConfigResource.all_brokers(), tuple([name, *rest] if name is not None else rest)
    if name is None:
        raise Misuse(f"say which {kind}: penstock configs describe {kind} NAME")
    if kind in ("broker", "broker-logger") and not name.isdecimal():
        raise Misuse(
            f"{name} is not the number of a broker; `penstock cluster describe` tells which there are"
        )
    return ConfigResource(ResourceType[kind.upper().replace("-", "_")], name), tuple(rest)
