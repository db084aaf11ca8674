"""`penstock leaders`: elect the leaders of partitions."""

from __future__ import annotations

from typing import Annotated

from penstock.cli.connection import Connection
from penstock.cli.declare import Group, argument, option
from penstock.cli.output import Output

command = Group(help="Elect the leaders of partitions.", kafka="kafka-leader-election")


@command.command(
    "elect",
    examples=[
        "penstock leaders elect",
        "penstock leaders elect orders:0 orders:1",
        "penstock leaders elect orders:0 --unclean",
    ],
)
def elect(
    partitions: Annotated[
        tuple[str, ...],
        argument(metavar="TOPIC:PARTITION...", help="Partitions, by default all that need an election."),
    ] = (),
    *,
    connection: Connection,
    output: Output,
    unclean: Annotated[
        bool, option("--unclean", help="Allow out-of-sync replicas to become leaders; records may be lost.")
    ] = False,
) -> None:
    """Elect the preferred replicas as leaders, for example after a broker restart."""
    from penstock.cli.values import read_partition
    from penstock.client.admin.reassignment import ElectionType, ReassignmentAdmin
    from penstock.client.errors import ElectionNotNeeded, ItemsFailed

    wanted = [read_partition(text) for text in partitions] or None

    async def work(admin: ReassignmentAdmin) -> list[tuple[str, int]]:
        election = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
        try:
            return sorted(await admin.elect_leaders(wanted, election=election))
        except ItemsFailed as failed:
            if any(not isinstance(error, ElectionNotNeeded) for error in failed.exceptions):
                raise
            return sorted(failed.results)

    elected = connection.with_admin(ReassignmentAdmin, work)
    output.table(["topic", "partition"], elected, empty="No partition needed an election.")
