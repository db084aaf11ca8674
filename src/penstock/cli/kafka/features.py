"""`kafka-features.sh {describe,upgrade,downgrade,disable,version-mapping,feature-dependencies}`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from penstock.cli.failures import FAILED
from penstock.cli.flags import UsageError
from penstock.cli.kafka.tool import (
    BOOTSTRAP_CONTROLLER,
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Options,
    Tool,
    flag,
)
from penstock.metadata.releases import RELEASES, level_of, release_of

if TYPE_CHECKING:
    from penstock.client.admin.features import FeatureUpdate

TOOL = Tool(
    "usage: kafka-features [-h] {describe,upgrade,downgrade,disable,version-mapping,feature-dependencies} ...",
    BOOTSTRAP_SERVER,
    BOOTSTRAP_CONTROLLER,
    COMMAND_CONFIG,
    flag("node-id", "The node id to which the request should be sent.", "NODE_ID"),
    flag("feature", "A feature and its level, as feature=level.", "FEATURE"),
    flag("metadata", "The level of metadata.version; better use --release-version.", "METADATA"),
    flag("release-version", "The release that defines the levels.", "RELEASE_VERSION"),
    flag("unsafe", "Downgrade even if metadata is lost."),
    flag("dry-run", "Perform a dry-run of this operation."),
    program="kafka-features",
    commands={
        "describe": (),
        "upgrade": (),
        "downgrade": (),
        "disable": (),
        "version-mapping": (),
        "feature-dependencies": ("feature",),
    },
)

METADATA = "metadata.version"


def run(options: Options) -> int:
    from penstock.cli.kafka import storage

    match options.words[0]:
        case "describe":
            return _describe(options)
        case "upgrade" | "downgrade" | "disable" as action:
            return _update(options, action)
        case "version-mapping":
            return storage.print_version_mapping()
        case _:
            return storage.print_feature_dependencies(options.all("feature"))


def _describe(options: Options) -> int:
    from penstock.cli.kafka.admin import with_admin
    from penstock.client.admin.features import FeaturesAdmin

    node = options.integer("node-id")
    found = with_admin(options, FeaturesAdmin, lambda admin: admin.describe_features(broker=node))
    epoch = "-" if found.epoch is None else str(found.epoch)
    for each in found.features.values():
        lowest, highest, level = (
            _shown(each.name, number or 0) for number in (each.supported_min, each.supported_max, each.level)
        )
        print(
            f"Feature: {each.name:<42}SupportedMinVersion: {lowest:<17}SupportedMaxVersion: {highest:<17}"
            f"FinalizedVersionLevel: {level:<17}Epoch: {epoch}"
        )
    return 0


def _shown(name: str, level: int) -> str:
    """The level; for metadata.version its release."""
    return release_of(level) if name == METADATA else str(level)


def _update(options: Options, action: str) -> int:
    from penstock.cli.kafka.admin import message_of, with_admin
    from penstock.client.admin.features import FeaturesAdmin
    from penstock.client.errors import ItemsFailed, PenstockError

    updates = _updates(options, action)
    is_dry = options.has("dry-run")
    failures: dict[str, PenstockError] = {}
    try:
        with_admin(options, FeaturesAdmin, lambda admin: admin.update_features(updates, validate_only=is_dry))
    except ItemsFailed as failed:
        failures = dict(failed.failures)
    verb = "disable" if action == "disable" else action
    done = f"can be {verb}d" if is_dry else f"was {verb}d"
    for name, update in sorted(updates.items()):
        to = "" if action == "disable" else f" to {update.level}"
        if name in failures:
            could = "Can not" if is_dry else "Could not"
            print(f"{could} {verb} {name}{to}. {message_of(failures[name])}")
        else:
            print(f"{name} {done}{to}.")
    if failures:
        print(f"{len(failures)} out of {len(updates)} operation(s) failed.", file=sys.stderr)
    return FAILED if failures else 0


def _updates(options: Options, action: str) -> dict[str, FeatureUpdate]:
    from penstock.client.admin.features import FeatureUpdate, UpgradeType

    kind = UpgradeType.UPGRADE
    if action != "upgrade":
        kind = UpgradeType.UNSAFE_DOWNGRADE if options.has("unsafe") else UpgradeType.SAFE_DOWNGRADE
    levels: dict[str, int] = {}
    if options.has("metadata"):
        levels[METADATA] = _level_of(options.text("metadata"))
    elif options.has("release-version"):
        levels |= _levels_of(options.text("release-version"))
    for text in options.all("feature"):
        name, _, level = text.partition("=")
        if action == "disable":
            levels[name] = 0
        elif not level.strip().isdecimal():
            raise UsageError(f"Can't parse feature=level string {text}: equals sign not found.")
        else:
            levels[name.strip()] = int(level)
    if not levels:
        raise UsageError(f"You must specify at least one feature to {action}")
    return {name: FeatureUpdate(level=level, upgrade_type=kind) for name, level in levels.items()}


def _level_of(release: str) -> int:
    """The level of a release such as `4.3-IV0`; `4.3` is its last step."""
    level = level_of(release)
    if level is None:
        raise UsageError(
            f"Unknown metadata.version {release}. Supported metadata.version are {', '.join(RELEASES)}"
        )
    return level


def _levels_of(release: str) -> dict[str, int]:
    """The levels of all features in a new cluster of this release."""
    from penstock.metadata.features import KRAFT_LEVEL, KRAFT_VERSION, initial_levels

    level = _level_of(release)
    levels = initial_levels(level)
    if level >= _level_of("3.9"):
        levels[KRAFT_VERSION] = KRAFT_LEVEL
    return levels
