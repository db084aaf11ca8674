"""`penstock quorum`: the metadata quorum: leader, voters and observers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from penstock.cli.connection import Connection
from penstock.cli.declare import Group, argument, option
from penstock.cli.output import Column, Output, show_time

if TYPE_CHECKING:
    from penstock.client.admin.quorum import Endpoint

command = Group(
    help="Show the metadata quorum, and add and remove voters.",
    kafka="kafka-metadata-quorum",
)

VOTER = argument(help="The controller's node.id.")
DIRECTORY = argument(metavar="DIRECTORY_ID", help="The id of its metadata directory.")


@command.command("status", examples=["penstock quorum status", "penstock quorum status --json"])
def status(*, connection: Connection, output: Output) -> None:
    """Show leader, epoch, high watermark, voters and observers."""
    from penstock.client.admin.quorum import QuorumAdmin

    found = connection.with_admin(QuorumAdmin, lambda admin: admin.describe_quorum())
    output.details(
        {
            "leader": found.leader,
            "leader_epoch": found.leader_epoch,
            "high_watermark": found.high_watermark,
            "voters": [voter.id for voter in found.voters],
            "observers": [observer.id for observer in found.observers],
        }
    )


@command.command("replicas", examples=["penstock quorum replicas"])
def replicas(*, connection: Connection, output: Output) -> None:
    """Show the lag of each voter and observer."""
    from penstock.client.admin.quorum import QuorumAdmin

    found = connection.with_admin(QuorumAdmin, lambda admin: admin.describe_quorum())
    ends = {replica.id: replica.log_end_offset for replica in (*found.voters, *found.observers)}
    end = ends.get(found.leader, max(ends.values(), default=0))
    output.table(
        [
            "node",
            "role",
            Column("log_end_offset", "end"),
            "lag",
            Column("last_fetch_ms", "last fetch", show_time),
            Column("last_caught_up_ms", "last caught up", show_time),
            Column("directory_id", "directory"),
        ],
        [
            (
                replica.id,
                "leader" if replica.id == found.leader else role,
                replica.log_end_offset,
                end - replica.log_end_offset,
                replica.last_fetch_ms,
                replica.last_caught_up_ms,
                replica.directory_id,
            )
            for role, some in (("follower", found.voters), ("observer", found.observers))
            for replica in some
        ],
    )


@command.command(
    "add-voter",
    examples=["penstock quorum add-voter 4 JEXY6aqzQY-32P5TStzaFg --endpoint CONTROLLER://10.0.0.4:9093"],
)
def add_voter(
    voter: Annotated[int, VOTER],
    directory_id: Annotated[str, DIRECTORY],
    *,
    connection: Connection,
    output: Output,
    endpoints: Annotated[
        tuple[str, ...],
        option(
            "--endpoint", metavar="NAME://HOST:PORT", help="An endpoint of the controller. May be repeated."
        ),
    ],
) -> None:
    """Make an observer a voter."""
    from penstock.client.admin.quorum import QuorumAdmin

    _check_directory_id(directory_id)
    where = [read_endpoint(text) for text in endpoints]
    connection.with_admin(QuorumAdmin, lambda admin: admin.add_voter(voter, directory_id, where))
    output.result(f"controller {voter} is now a voter", {"voter": voter, "directory_id": directory_id})


def _check_directory_id(text: str) -> None:
    from penstock.cli.failures import Misuse
    from penstock.protocol.types import parse_uuid

    try:
        parse_uuid(text)
    except ValueError as error:
        raise Misuse(f"DIRECTORY_ID: {error}") from None


def read_endpoint(text: str) -> Endpoint:
    """`CONTROLLER://host:port`."""
    from penstock.cli.failures import Misuse
    from penstock.client.admin.quorum import Endpoint

    name, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not (separator and colon and name and port.isdecimal()):
        raise Misuse(f"--endpoint {text}: must be NAME://HOST:PORT, such as CONTROLLER://10.0.0.4:9093")
    return Endpoint(listener=name, host=host.strip("[]"), port=int(port))


@command.command("remove-voter", examples=["penstock quorum remove-voter 4 JEXY6aqzQY-32P5TStzaFg"])
def remove_voter(
    voter: Annotated[int, VOTER],
    directory_id: Annotated[str, DIRECTORY],
    *,
    connection: Connection,
    output: Output,
) -> None:
    """Remove a voter from the quorum."""
    from penstock.client.admin.quorum import QuorumAdmin

    _check_directory_id(directory_id)
    connection.with_admin(QuorumAdmin, lambda admin: admin.remove_voter(voter, directory_id))
    output.result(f"controller {voter} is no longer a voter", {"voter": voter, "directory_id": directory_id})
