"""`penstock cluster`: the cluster at a glance, its nodes, draining a broker, and the APIs that brokers serve."""

from __future__ import annotations

from typing import Annotated

from penstock.cli.connection import Connection
from penstock.cli.declare import Group, argument, option
from penstock.cli.output import Column, Output, count_of

command = Group(
    help="Show the cluster and its nodes, drain a broker, and list the APIs that brokers serve.",
    kafka="kafka-cluster",
)


@command.command("status", examples=["penstock cluster status", "penstock cluster status --json"])
def status(*, connection: Connection, output: Output) -> None:
    """Show the cluster at a glance: nodes, leaders, partitions that are not fully replicated, and the quorum."""
    from penstock.cli.cluster_overview import NodeRow, OverviewAdmin, describe_overview
    from penstock.cli.output import to_json

    found = connection.with_admin(OverviewAdmin, describe_overview)
    if output.as_json:
        print(to_json({**found._asdict(), "nodes": [row._asdict() for row in found.nodes]}))
        return
    output.details(
        {
            "cluster": found.cluster_id,
            "partitions": found.partitions,
            "under_replicated": found.under_replicated,
            "offline": found.offline,
            "being_reassigned": found.moving,
        }
    )
    print()
    output.table(NodeRow._fields, found.nodes)


@command.command(
    "drain",
    examples=[
        "penstock cluster drain 3",
        "penstock cluster drain 3 --throttle 50000000",
        "penstock cluster drain 3 --stop",
    ],
)
def drain(
    broker: Annotated[int, argument(help="The broker whose replicas are moved to the others.")],
    *,
    connection: Connection,
    output: Output,
    throttle: Annotated[
        int | None,
        option("--throttle", metavar="BYTES", help="Move at most this many bytes per second.", minimum=1),
    ] = None,
    stop: Annotated[bool, option("--stop", help="Let the broker have replicas again.")] = False,
) -> None:
    """Move all replicas away from a broker, before it is stopped for good.

    The broker also gets no new replicas. If this command is interrupted, the controller goes on with the same throttle;
    run it again to watch. Afterwards stop the broker, and remove it with `penstock cluster unregister`.
    """
    from penstock.cli.draining import drain, stop_draining
    from penstock.cli.failures import report_when_stopped
    from penstock.cli.reassignment import ReassigningAdmin

    if stop:
        connection.with_admin(ReassigningAdmin, lambda admin: stop_draining(admin, broker))
        output.result(f"broker {broker} is no longer drained", {"broker": broker, "drained": False})
        return
    removes = " and removes the throttle" if throttle is not None else ""
    left = (
        f"replicas are still being moved; `penstock cluster drain {broker}` watches{removes} when all have moved, and "
        f"`penstock cluster drain {broker} --stop` stops{removes}"
    )
    with (
        report_when_stopped(lambda: left),
        output.progress(f"draining broker {broker}", unit="partitions") as progress,
    ):
        moved = connection.with_admin(
            ReassigningAdmin,
            lambda admin: drain(
                admin,
                broker,
                throttle=throttle,
                on_progress=lambda step: progress.update(step.done, total=step.total),
            ),
        )
    output.result(
        f"broker {broker} has no replicas any more; {count_of(moved, 'partition')} moved",
        {"broker": broker, "drained": True, "partitions": moved},
    )


@command.command("describe", examples=["penstock cluster describe", "penstock cluster describe --json"])
def describe(
    *,
    connection: Connection,
    output: Output,
    fenced: Annotated[bool, option("--fenced", help="Include fenced brokers.")] = False,
) -> None:
    """List the brokers, and which of them is the controller."""
    from penstock.client.admin.cluster import ClusterAdmin

    found = connection.with_admin(ClusterAdmin, lambda admin: admin.describe_cluster(include_fenced=fenced))
    output.table(
        [
            "broker",
            "host",
            "port",
            "rack",
            Column("is_controller", "controller"),
            Column("is_fenced", "fenced"),
        ],
        [
            (
                broker.id,
                broker.host,
                broker.port,
                broker.rack,
                broker.id == found.controller,
                broker.is_fenced,
            )
            for broker in found.brokers
        ],
        empty="The cluster has no unfenced brokers.",
    )


@command.command("id", examples=["penstock cluster id"])
def cluster_id(*, connection: Connection, output: Output) -> None:
    """Print the cluster's id."""
    from penstock.client.admin.cluster import ClusterAdmin

    found = connection.with_admin(ClusterAdmin, lambda admin: admin.describe_cluster())
    output.result(found.cluster_id or "-", {"cluster_id": found.cluster_id})


@command.command("apis", examples=["penstock cluster apis", "penstock cluster apis --broker 1 --json"])
def apis(
    *,
    connection: Connection,
    output: Output,
    broker: Annotated[int | None, option("--broker", help="Only this broker.")] = None,
) -> None:
    """List the APIs and versions that brokers serve."""
    from penstock.cli.failures import Refusal
    from penstock.client.admin.cluster import ClusterAdmin

    found = connection.with_admin(ClusterAdmin, lambda admin: admin.api_versions())
    if broker is not None and broker not in found:
        raise Refusal(f"broker {broker} does not exist; `penstock cluster describe` lists all brokers")
    output.table(
        [
            "broker",
            "key",
            "api",
            Column("first_version", "first"),
            Column("last_version", "last"),
            Column("usable_version", "usable"),
        ],
        [
            (node_id, each.key, each.name, each.first_version, each.last_version, each.usable_version)
            for node_id, served in found.items()
            for each in served
            if broker in (None, node_id)
        ],
    )


@command.command("unregister", examples=["penstock cluster unregister 4"])
def unregister(
    broker: Annotated[int, argument(help="A broker that has stopped for good.")],
    *,
    connection: Connection,
    output: Output,
) -> None:
    """Remove the registration of a broker."""
    from penstock.cli import draining
    from penstock.cli.reassignment import ReassigningAdmin

    connection.with_admin(ReassigningAdmin, lambda admin: draining.unregister(admin, broker))
    output.result(f"broker {broker} is no longer registered", {"broker": broker})
