"""`kafka-features.sh {describe,upgrade,downgrade,disable,version-mapping,feature-dependencies}`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.cli.failures import FAILED
from penstock.cli.kafka.flags import BOOTSTRAP_SERVER, COMMAND_CONFIG, BadFlags, Flag, Flags, Said, run_tool

if TYPE_CHECKING:
    from penstock.client.admin.features import FeatureUpdate

FLAGS = Flags(
    "usage: kafka-features [-h] {describe,upgrade,downgrade,disable,version-mapping,feature-dependencies} ...",
    BOOTSTRAP_SERVER,
    Flag("bootstrap-controller", "The controllers to connect to.", "BOOTSTRAP_CONTROLLER"),
    COMMAND_CONFIG,
    Flag("node-id", "The node id to which the request should be sent.", "NODE_ID"),
    Flag("feature", "A feature and its level, as feature=level.", "FEATURE"),
    Flag("metadata", "The level of metadata.version; --release-version says it better.", "METADATA"),
    Flag("release-version", "The release whose levels are meant.", "RELEASE_VERSION"),
    Flag("unsafe", "Even where metadata is lost by it."),
    Flag("dry-run", "Perform a dry-run of this operation."),
    words="command",
)

METADATA = "metadata.version"
STEPS = {
    "3.3": (3,),
    "3.4": (0,),
    "3.5": (0, 1, 2),
    "3.6": (0, 1, 2),
    "3.7": (0, 1, 2, 3, 4),
    "3.8": (0,),
    "3.9": (0,),
    "4.0": (0, 1, 2, 3),
    "4.1": (0, 1),
    "4.2": (0, 1),
    "4.3": (0,),
}
RELEASES = [f"{release}-IV{step}" for release, steps in STEPS.items() for step in steps]
FIRST_LEVEL = 7  # of metadata.version, the oldest that Kafka 4 can be upgraded from


def run(arguments: Sequence[str]) -> int:
    return run_tool(FLAGS, arguments, _run)


def _run(said: Said) -> int:
    from penstock.cli.kafka import storage

    match said.words:
        case ["describe"]:
            return _describe(said)
        case [("upgrade" | "downgrade" | "disable") as action]:
            return _update(said, action)
        case ["version-mapping"]:
            return storage.run(["version-mapping"])
        case ["feature-dependencies"]:
            return storage.run(
                ["feature-dependencies", *(f"--feature={text}" for text in said.all("feature"))]
            )
        case []:
            raise BadFlags("kafka-features: error: too few arguments")
        case words:
            raise BadFlags(f"kafka-features: error: invalid choice: '{words[0]}'")


def _describe(said: Said) -> int:
    from penstock.cli.kafka.tools import ask_cluster
    from penstock.client.admin.features import FeaturesAdmin

    node = said.integer("node-id")
    found = ask_cluster(said, FeaturesAdmin, lambda admin: admin.describe_features(broker=node))
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
    """metadata.version is told by the release that brought its level."""
    if name == METADATA and FIRST_LEVEL <= level < FIRST_LEVEL + len(RELEASES):
        return RELEASES[level - FIRST_LEVEL]
    return str(level)


def _update(said: Said, action: str) -> int:
    from penstock.cli.kafka.tools import ask_cluster, message_of
    from penstock.client.admin.features import FeaturesAdmin
    from penstock.client.errors import ItemsFailed, PenstockError

    updates = _updates(said, action)
    is_dry = said.has("dry-run")
    failures: dict[str, PenstockError] = {}
    try:
        ask_cluster(said, FeaturesAdmin, lambda admin: admin.update_features(updates, validate_only=is_dry))
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


def _updates(said: Said, action: str) -> dict[str, FeatureUpdate]:
    from penstock.client.admin.features import FeatureUpdate, UpgradeType

    kind = UpgradeType.UPGRADE
    if action != "upgrade":
        kind = UpgradeType.UNSAFE_DOWNGRADE if said.has("unsafe") else UpgradeType.SAFE_DOWNGRADE
    levels: dict[str, int] = {}
    if said.has("metadata"):
        levels[METADATA] = _level_of(said.text("metadata"))
    elif said.has("release-version"):
        levels |= _levels_of(said.text("release-version"))
    for text in said.all("feature"):
        name, _, level = text.partition("=")
        if action == "disable":
            levels[name] = 0
        elif not level.strip().isdecimal():
            raise BadFlags(f"Can't parse feature=level string {text}: equals sign not found.")
        else:
            levels[name.strip()] = int(level)
    if not levels:
        raise BadFlags(f"You must specify at least one feature to {action}")
    return {name: FeatureUpdate(level=level, upgrade_type=kind) for name, level in levels.items()}


def _level_of(release: str) -> int:
    """Of a release, or of the last step to it: `4.3` is `4.3-IV0`."""
    meant = [
        place for place, name in enumerate(RELEASES) if name == release or name.startswith(f"{release}-")
    ]
    if not meant:
        raise BadFlags(
            f"Unknown metadata.version {release}. Supported metadata.version are {', '.join(RELEASES)}"
        )
    return FIRST_LEVEL + meant[-1]


def _levels_of(release: str) -> dict[str, int]:
    """Of the newest release the levels of all features; of an older one that of the metadata alone."""
    from penstock.metadata.features import INITIAL_LEVELS, KRAFT_LEVEL, KRAFT_VERSION

    level = _level_of(release)
    if level == FIRST_LEVEL + len(RELEASES) - 1:
        return {**INITIAL_LEVELS, KRAFT_VERSION: KRAFT_LEVEL, METADATA: level}
    return {METADATA: level}
