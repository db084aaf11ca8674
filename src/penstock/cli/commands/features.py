"""`penstock features`: levels of the cluster's features, and changing them."""

from __future__ import annotations

from typing import Annotated

from penstock.cli.connection import Connection
from penstock.cli.declare import Argument, Group, Option
from penstock.cli.output import Column, Output

command = Group(help="Tell and change the levels of the cluster's features.", kafka="kafka-features")

LEVELS = Argument(metavar="FEATURE=LEVEL...", help="Features and their new levels; 0 turns one off.")
DRY_RUN = Option("--dry-run", help="Only tell whether it could be done.")


@command.command("describe", examples=["penstock features describe", "penstock features describe --json"])
def describe(*, connection: Connection, output: Output) -> None:
    """Tell which features are in force, and which levels the brokers support."""
    from penstock.cli.asking import ask
    from penstock.client.admin.features import FeaturesAdmin

    found = ask(connection.settings(), FeaturesAdmin, lambda admin: admin.describe_features())
    output.table(
        ["feature", "level", Column("supported_min", "lowest"), Column("supported_max", "highest")],
        [(each.name, each.level, each.supported_min, each.supported_max) for each in found.features.values()],
        empty="The brokers know no features.",
    )


@command.command("upgrade", examples=["penstock features upgrade metadata.version=30"])
def upgrade(
    levels: Annotated[list[str], LEVELS],
    *,
    connection: Connection,
    output: Output,
    dry_run: Annotated[bool, DRY_RUN] = False,
) -> None:
    """Raise levels. Some cannot be lowered again."""
    _update(levels, "upgrade", connection, output, dry_run=dry_run)


@command.command("downgrade", examples=["penstock features downgrade streams.version=0 --dry-run"])
def downgrade(
    levels: Annotated[list[str], LEVELS],
    *,
    connection: Connection,
    output: Output,
    unsafe: Annotated[bool, Option("--unsafe", help="Even where metadata is lost by it.")] = False,
    dry_run: Annotated[bool, DRY_RUN] = False,
) -> None:
    """Lower levels."""
    kind = "unsafe_downgrade" if unsafe else "safe_downgrade"
    _update(levels, kind, connection, output, dry_run=dry_run)


def _update(levels: list[str], kind: str, connection: Connection, output: Output, *, dry_run: bool) -> None:
    from penstock.cli.asking import ask, read_pairs
    from penstock.cli.failures import Misuse
    from penstock.client.admin.features import FeaturesAdmin, FeatureUpdate, UpgradeType

    updates: dict[str, FeatureUpdate] = {}
    for name, level in read_pairs(levels, option="").items():
        if not level.isdecimal():
            raise Misuse(
                f"{name}={level}: a level is a number; `penstock features describe` tells the highest"
            )
        updates[name] = FeatureUpdate(level=int(level), upgrade_type=UpgradeType[kind.upper()])
    ask(
        connection.settings(),
        FeaturesAdmin,
        lambda admin: admin.update_features(updates, validate_only=dry_run),
    )
    output.table(
        ["feature", "level", Column("is_done", "done")],
        [(name, update.level, not dry_run) for name, update in updates.items()],
    )
