"""`penstock features`: the feature levels of the cluster."""

from __future__ import annotations

from typing import Annotated

from penstock.cli.connection import Connection
from penstock.cli.declare import Group, argument, option
from penstock.cli.output import Column, Output

command = Group(help="Show and change the feature levels of the cluster.", kafka="kafka-features")

LEVELS = argument(metavar="FEATURE=LEVEL...", help="Features and their new levels; 0 disables a feature.")
DRY_RUN = option("--dry-run", help="Validate only; change nothing.")


@command.command("describe", examples=["penstock features describe", "penstock features describe --json"])
def describe(*, connection: Connection, output: Output) -> None:
    """Show the finalized level of each feature, and the levels that brokers support."""
    from penstock.client.admin.features import FeaturesAdmin

    found = connection.with_admin(FeaturesAdmin, lambda admin: admin.describe_features())
    output.table(
        ["feature", "level", Column("supported_min", "lowest"), Column("supported_max", "highest")],
        [(each.name, each.level, each.supported_min, each.supported_max) for each in found.features.values()],
        empty="The brokers support no features.",
    )


@command.command("upgrade", examples=["penstock features upgrade metadata.version=30"])
def upgrade(
    levels: Annotated[list[str], LEVELS],
    *,
    connection: Connection,
    output: Output,
    dry_run: Annotated[bool, DRY_RUN] = False,
) -> None:
    """Upgrade feature levels. Some cannot be downgraded."""
    _update(levels, "upgrade", connection, output, dry_run=dry_run)


@command.command("downgrade", examples=["penstock features downgrade streams.version=0 --dry-run"])
def downgrade(
    levels: Annotated[list[str], LEVELS],
    *,
    connection: Connection,
    output: Output,
    unsafe: Annotated[bool, option("--unsafe", help="Downgrade even if metadata is lost.")] = False,
    dry_run: Annotated[bool, DRY_RUN] = False,
) -> None:
    """Downgrade feature levels."""
    kind = "unsafe_downgrade" if unsafe else "safe_downgrade"
    _update(levels, kind, connection, output, dry_run=dry_run)


def _update(levels: list[str], kind: str, connection: Connection, output: Output, *, dry_run: bool) -> None:
    from penstock.cli.failures import Misuse
    from penstock.cli.values import read_pairs
    from penstock.client.admin.features import FeaturesAdmin, FeatureUpdate, UpgradeType

    updates: dict[str, FeatureUpdate] = {}
    for name, level in read_pairs(levels, option="").items():
        if not level.isdecimal():
            raise Misuse(
                f"{name}={level}: a level is a number; `penstock features describe` shows the highest"
            )
        updates[name] = FeatureUpdate(level=int(level), upgrade_type=UpgradeType[kind.upper()])
    connection.with_admin(
        FeaturesAdmin,
        lambda admin: admin.update_features(updates, validate_only=dry_run),
    )
    output.table(
        ["feature", "level", Column("is_done", "done")],
        [(name, update.level, not dry_run) for name, update in updates.items()],
    )
