"""`penstock storage`: the directories of a node, formatted and looked at while it does not run."""

from __future__ import annotations

from typing import Annotated

from penstock.cli.declare import Argument, Group, Option
from penstock.cli.output import Output

command = Group(help="Format the directories of a node, and tell what they hold.", kafka="kafka-storage")

PROPERTIES = Argument(
    metavar="server.properties",
    help="The node's settings; what is built in where nothing is said.",
    complete="file",
)
SET = Option("--set", "-s", metavar="KEY=VALUE", help="A setting that outranks the file. May be repeated.")


@command.command(
    "format",
    examples=[
        "penstock storage format config/server.properties",
        "penstock storage format --set log.dirs=/var/lib/penstock --cluster-id MkU3OEVBNTcwNTJENDM2Qg",
    ],
)
def format_storage(
    file: Annotated[str | None, PROPERTIES] = None,
    *,
    output: Output,
    assignments: Annotated[tuple[str, ...], SET] = (),
    cluster_id: Annotated[
        str | None, Option("--cluster-id", "-t", help="The cluster's id; a new one where nothing is said.")
    ] = None,
    ignore_formatted: Annotated[
        bool, Option("--ignore-formatted", help="Leave directories alone that are formatted already.")
    ] = False,
) -> None:
    """Say in each directory which cluster and node it belongs to.

    A node that starts with directories that say nothing formats them itself: this is for choosing the cluster's id.
    """
    from penstock.cli.storage import format_directories, load_settings, new_id

    settings = load_settings(file, assignments)
    chosen = cluster_id or new_id()
    done = format_directories(settings, cluster_id=chosen, ignores_formatted=ignore_formatted)
    output.table(
        ["directory", "cluster", "node", "was_formatted"],
        [(one.path, chosen, settings.node_id, one.was_formatted) for one in done],
    )


@command.command("info", examples=["penstock storage info config/server.properties --json"])
def info(
    file: Annotated[str | None, PROPERTIES] = None,
    *,
    output: Output,
    assignments: Annotated[tuple[str, ...], SET] = (),
) -> None:
    """Tell which cluster and node each directory belongs to."""
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
    """Print a new id for a cluster."""
    from penstock.cli.storage import new_id

    chosen = new_id()
    output.result(chosen, {"cluster_id": chosen})
