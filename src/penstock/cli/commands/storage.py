"""`penstock storage`: format and inspect the log directories of a node that is not running."""

from __future__ import annotations

from typing import Annotated

from penstock.cli.declare import Group, argument, option
from penstock.cli.output import Output

command = Group(help="Format and inspect the log directories of a node.", kafka="kafka-storage")

PROPERTIES = argument(
    metavar="server.properties",
    help="The node's settings; defaults if not given.",
    complete="file",
)
SET = option("--set", "-s", metavar="KEY=VALUE", help="A setting; overrides the file. May be repeated.")


@command.command(
    "format",
    examples=[
        "penstock storage format config/server.properties",
        "penstock storage format --set log.dirs=/var/lib/penstock --cluster-id MkU3OEVBNTcwNTJENDM2Qg",
        "penstock storage format config/controller.properties --standalone --cluster-id MkU3OEVBNTcwNTJENDM2Qg",
    ],
)
def format_storage(
    file: Annotated[str | None, PROPERTIES] = None,
    *,
    output: Output,
    assignments: Annotated[tuple[str, ...], SET] = (),
    cluster_id: Annotated[
        str | None, option("--cluster-id", "-t", help="The cluster id, by default a new one.")
    ] = None,
    ignore_formatted: Annotated[
        bool, option("--ignore-formatted", help="Skip directories that are already formatted.")
    ] = False,
    standalone: Annotated[
        bool,
        option("--standalone", help="This controller is the only voter at first; others can join later."),
    ] = False,
    initial_controllers: Annotated[
        str | None,
        option(
            "--initial-controllers",
            metavar="ID@HOST:PORT:DIRECTORY,...",
            help="The first voters; the same list on each of them.",
        ),
    ] = None,
    no_initial_controllers: Annotated[
        bool, option("--no-initial-controllers", help="This controller joins a quorum that exists already.")
    ] = False,
    features: Annotated[
        tuple[str, ...],
        option(
            "--feature",
            metavar="NAME=LEVEL",
            help="The level of a feature in a new cluster. May be repeated.",
        ),
    ] = (),
    release_version: Annotated[
        str | None, option("--release-version", help="The release whose feature levels a new cluster gets.")
    ] = None,
) -> None:
    """Write the ids of cluster and node, the feature levels and the first voters into the log directories.

    A node that is a cluster of its own formats new directories itself when it starts. Use this command to choose the
    cluster id, and for every node of a larger cluster.
    """
    from penstock.cli.failures import Misuse
    from penstock.cli.storage import format_directories, load_settings, new_id
    from penstock.node.formatting import InitialQuorum

    if sum((standalone, no_initial_controllers, initial_controllers is not None)) > 1:
        raise Misuse("give only one of --standalone, --initial-controllers and --no-initial-controllers")
    settings = load_settings(file, assignments)
    chosen = cluster_id or new_id()
    done = format_directories(
        settings,
        cluster_id=chosen,
        ignores_formatted=ignore_formatted,
        quorum=InitialQuorum(standalone, no_initial_controllers, initial_controllers),
        features=features,
        release=release_version,
    )
    output.table(
        ["directory", "cluster", "node", "was_formatted"],
        [(one.path, chosen, settings.node_id, one.was_formatted) for one in done.directories],
    )


@command.command("info", examples=["penstock storage info config/server.properties --json"])
def info(
    file: Annotated[str | None, PROPERTIES] = None,
    *,
    output: Output,
    assignments: Annotated[tuple[str, ...], SET] = (),
) -> None:
    """Show which cluster and node each directory belongs to."""
    from penstock.cli.storage import inspect_directories, load_settings
    from penstock.protocol.types import uuid_text

    rows = [
        (one.path, None, None, None, one.is_metadata)
        if one.identity is None
        else (
            one.path,
            one.identity.cluster_id,
            one.identity.node_id,
            uuid_text(one.identity.directory_id),
            one.is_metadata,
        )
        for one in inspect_directories(load_settings(file, assignments))
    ]
    output.table(["directory", "cluster", "node", "id", "metadata"], rows)


@command.command("random-uuid", examples=["penstock storage random-uuid"])
def random_uuid(*, output: Output) -> None:
    """Print a new cluster id."""
    from penstock.cli.storage import new_id

    chosen = new_id()
    output.result(chosen, {"cluster_id": chosen})
