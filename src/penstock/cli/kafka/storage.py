"""`kafka-storage.sh {info,format,version-mapping,feature-dependencies,random-uuid}`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from penstock.cli.failures import FAILED, Refusal
from penstock.cli.kafka.flags import BadFlags, Flag, Flags, Said, run_tool

CONFIG = Flag("config", "The Kafka configuration file to use.", "CONFIG", ("-c",))

FLAGS = Flags(
    "usage: kafka-storage [-h] {info,format,version-mapping,feature-dependencies,random-uuid} ...",
    CONFIG,
    Flag("cluster-id", "The cluster ID to use.", "CLUSTER_ID", ("-t",)),
    Flag("ignore-formatted", "Skip over directories that are formatted already.", shorts=("-g",)),
    Flag("release-version", "The release whose features a new cluster starts with.", "RELEASE", ("-r",)),
    Flag("feature", "The level that one feature starts with, as feature=level.", "FEATURE", ("-f",)),
    Flag("standalone", "Begin a quorum of this one controller.", shorts=("-s",)),
    Flag("no-initial-controllers", "Leave it to other controllers to begin a quorum.", shorts=("-N",)),
    Flag("initial-controllers", "Begin a quorum of several controllers.", "CONTROLLERS", ("-I",)),
    Flag("add-scram", "A SCRAM credential to begin with.", "ADD_SCRAM", ("-S",)),
    words="command",
)

# What this version does not do with a new cluster, and would be a lie to accept.
NOT_YET = {
    "add-scram": "SCRAM credentials are still to come",
    "initial-controllers": "clusters of several nodes are still to come",
    "no-initial-controllers": "clusters of several nodes are still to come",
}


def run(arguments: Sequence[str]) -> int:
    return run_tool(FLAGS, arguments, _run)


def _run(said: Said) -> int:
    match said.words:
        case ["random-uuid"]:
            from penstock.cli.storage import new_id

            print(new_id())
            return 0
        case ["format"]:
            return _format(said)
        case ["info"]:
            return _info(said)
        case ["version-mapping"]:
            return _version_mapping()
        case ["feature-dependencies"]:
            return _feature_dependencies(said)
        case []:
            raise BadFlags("kafka-storage: error: too few arguments")
        case words:
            raise BadFlags(f"kafka-storage: error: invalid choice: '{words[0]}'")


def _format(said: Said) -> int:
    from penstock.cli.storage import METADATA_RELEASE, format_directories, load_settings

    cluster_id, file = said.get("cluster-id"), _config(said)
    if cluster_id is None:
        raise BadFlags("kafka-storage: error: argument --cluster-id/-t is required")
    for name, words in NOT_YET.items():
        if said.has(name):
            raise Refusal(f"--{name}: {words}")
    _check_levels(said)
    done = format_directories(
        load_settings(file), cluster_id=cluster_id, ignores_formatted=said.has("ignore-formatted")
    )
    if all(one.was_formatted for one in done):
        print("All of the log directories are already formatted.")
    metadata = "dynamic metadata voter" if said.has("standalone") else "metadata"
    for one in done:
        if not one.was_formatted:
            kind = metadata if one.is_metadata else "data"
            print(f"Formatting {kind} directory {one.path} with metadata.version {METADATA_RELEASE}.")
    return 0


def _check_levels(said: Said) -> None:
    """Features begin at the levels of 4.3, and at no others."""
    from penstock.cli.storage import METADATA_RELEASE

    release = said.get("release-version")
    if release is not None and release not in (METADATA_RELEASE, METADATA_RELEASE.partition("-")[0]):
        raise Refusal(
            f"--release-version {release}: a new cluster begins with {METADATA_RELEASE}, and no older one"
        )
    for text in said.all("feature"):
        name, _, level = text.partition("=")
        if str(_levels().get(name)) != level:
            raise Refusal(
                f"--feature {text}: a new cluster begins with {name}={_levels().get(name, 'nothing')}"
            )


def _info(said: Said) -> int:
    from penstock.cli.storage import inspect_directories, load_settings
    from penstock.protocol.types import uuid_text

    found = inspect_directories(load_settings(_config(said)))
    problems = [
        f"{one.path} {'is not formatted.' if one.exists else 'does not exist'}"
        for one in found
        if not one.identity
    ]
    there = [one for one in found if one.exists]
    if there:
        print("Found log director" + ("y:" if len(there) == 1 else "ies:"))
        print(*(f"  {one.path}" for one in there), sep="\n")
        print()
    for one in found:
        if one.identity is not None:
            print(
                f"Found metadata: {{cluster.id={one.identity.cluster_id}, "
                f"directory.id={uuid_text(one.identity.directory_id)}, node.id={one.identity.node_id}, version=1}}\n"
            )
    if problems:
        print("Found problem:" if len(problems) == 1 else "Found problems:")
        print(*(f"  {problem}" for problem in problems), sep="\n")
        print()
    return FAILED if problems else 0


def _levels() -> dict[str, int]:
    from penstock.metadata.features import INITIAL_LEVELS, KRAFT_LEVEL, KRAFT_VERSION

    return {**INITIAL_LEVELS, KRAFT_VERSION: KRAFT_LEVEL}


def _version_mapping() -> int:
    from penstock.cli.storage import METADATA_RELEASE

    for name, level in _levels().items():
        print(f"{name}={level}" + (f" ({METADATA_RELEASE})" if name == "metadata.version" else ""))
    return 0


def _feature_dependencies(said: Said) -> int:
    from penstock.cli.storage import METADATA_RELEASE

    if not said.has("feature"):
        raise BadFlags("kafka-storage: error: argument --feature/-f is required")
    for text in said.all("feature"):
        name, _, level = text.partition("=")
        if name not in _levels():
            print(f"Unknown feature: {name}", file=sys.stderr)
            return FAILED
        release = f" ({METADATA_RELEASE})" if name == "metadata.version" else ""
        print(f"{name}={level}{release} has no dependencies.")
    return 0


def _config(said: Said) -> str:
    file = said.get("config")
    if file is None:
        raise BadFlags("kafka-storage: error: argument --config/-c is required")
    return file
