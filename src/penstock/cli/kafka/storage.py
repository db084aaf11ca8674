"""`kafka-storage.sh {info,format,version-mapping,feature-dependencies,random-uuid}`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from penstock.cli.failures import FAILED, Refusal
from penstock.cli.kafka.tool import Options, Tool, flag

CONFIG = flag("config", "The Kafka configuration file to use.", "CONFIG", ("-c",))

TOOL = Tool(
    "usage: kafka-storage [-h] {info,format,version-mapping,feature-dependencies,random-uuid} ...",
    CONFIG,
    flag("cluster-id", "The cluster ID to use.", "CLUSTER_ID", ("-t",)),
    flag("ignore-formatted", "Skip directories that are already formatted.", also=("-g",)),
    flag("release-version", "The release that defines the features of the new cluster.", "RELEASE", ("-r",)),
    flag("feature", "The initial level of a feature, as feature=level.", "FEATURE", ("-f",)),
    flag("standalone", "Start a quorum with this controller only.", also=("-s",)),
    flag("no-initial-controllers", "Do not start a quorum; other controllers do.", also=("-N",)),
    flag("initial-controllers", "Start a quorum of several controllers.", "CONTROLLERS", ("-I",)),
    flag("add-scram", "An initial SCRAM credential.", "ADD_SCRAM", ("-S",)),
    program="kafka-storage",
    commands={
        "info": ("config",),
        "format": ("config", "cluster-id"),
        "version-mapping": (),
        "feature-dependencies": ("feature",),
        "random-uuid": (),
    },
)


def run(options: Options) -> int:
    match options.words[0]:
        case "random-uuid":
            from penstock.cli.storage import new_id

            print(new_id())
            return 0
        case "format":
            return _format(options)
        case "info":
            return _info(options)
        case "version-mapping":
            return print_version_mapping()
        case _:
            return print_feature_dependencies(options.all("feature"))


def _format(options: Options) -> int:
    from penstock.cli.storage import format_directories, load_settings
    from penstock.metadata.releases import release_of
    from penstock.node.formatting import InitialQuorum

    if options.has("add-scram"):
        raise Refusal("--add-scram: SCRAM credentials are not supported yet")
    chosen = [
        name for name in ("standalone", "no-initial-controllers", "initial-controllers") if options.has(name)
    ]
    if len(chosen) > 1:
        raise Refusal(f"argument --{chosen[1]}: not allowed with argument --{chosen[0]}")
    done = format_directories(
        load_settings(options.text("config")),
        cluster_id=options.text("cluster-id"),
        ignores_formatted=options.has("ignore-formatted"),
        quorum=InitialQuorum(
            options.has("standalone"),
            options.has("no-initial-controllers"),
            options.get("initial-controllers"),
        ),
        features=options.all("feature"),
        release=options.get("release-version"),
    )
    if all(one.was_formatted for one in done.directories):
        print("All of the log directories are already formatted.")
    metadata = "metadata"
    if chosen and chosen[0] != "no-initial-controllers":
        metadata = "dynamic metadata voter" if done.is_voter else "dynamic metadata"
    for one in done.directories:
        if not one.was_formatted:
            kind = metadata if one.is_metadata else "data"
            release = release_of(done.metadata_version)
            print(f"Formatting {kind} directory {one.path} with metadata.version {release}.")
    return 0


def _info(options: Options) -> int:
    from penstock.cli.storage import inspect_directories, load_settings
    from penstock.protocol.types import uuid_text

    found = inspect_directories(load_settings(options.text("config")))
    problems = [
        f"{one.path} {'is not formatted.' if one.exists else 'does not exist'}"
        for one in found
        if not one.identity
    ]
    existing = [one for one in found if one.exists]
    if existing:
        print("Found log director" + ("y:" if len(existing) == 1 else "ies:"))
        print(*(f"  {one.path}" for one in existing), sep="\n")
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


def print_version_mapping() -> int:
    from penstock.metadata.releases import release_of

    for name, level in _levels().items():
        print(f"{name}={level}" + (f" ({release_of(level)})" if name == "metadata.version" else ""))
    return 0


def print_feature_dependencies(features: Sequence[str]) -> int:
    from penstock.metadata.releases import release_of

    for text in features:
        name, _, level = text.partition("=")
        if name not in _levels():
            print(f"Unknown feature: {name}", file=sys.stderr)
            return FAILED
        is_release = name == "metadata.version" and level.isdecimal()
        release = f" ({release_of(int(level))})" if is_release else ""
        print(f"{name}={level}{release} has no dependencies.")
    return 0
