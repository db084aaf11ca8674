"""`penstock cluster`: the cluster as a whole, its brokers and what they serve."""

from __future__ import annotations

from typing import Annotated

from penstock.cli.connection import Connection
from penstock.cli.declare import Argument, Group, Option
from penstock.cli.output import Column, Output

command = Group(help="Tell of the cluster, its brokers and what they serve.", kafka="kafka-cluster")


@command.command("describe", examples=["penstock cluster describe", "penstock cluster describe --json"])
def describe(
    *,
    connection: Connection,
    output: Output,
    fenced: Annotated[bool, Option("--fenced", help="Brokers that are not in service too.")] = False,
) -> None:
    """Tell the brokers of the cluster, and which speaks for its controller."""
    from penstock.cli.asking import ask
    from penstock.client.admin.cluster import ClusterAdmin

    found = ask(
        connection.settings(), ClusterAdmin, lambda admin: admin.describe_cluster(include_fenced=fenced)
    )
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
        empty="The cluster has no brokers in service.",
    )


@command.command("id", examples=["penstock cluster id"])
def cluster_id(*, connection: Connection, output: Output) -> None:
    """Print the cluster's id."""
    from penstock.cli.asking import ask
    from penstock.client.admin.cluster import ClusterAdmin

    found = ask(connection.settings(), ClusterAdmin, lambda admin: admin.describe_cluster())
    output.result(found.cluster_id or "-", {"cluster_id": found.cluster_id})


@command.command("apis", examples=["penstock cluster apis", "penstock cluster apis --broker 1 --json"])
def apis(
    *,
    connection: Connection,
    output: Output,
    broker: Annotated[int | None, Option("--broker", help="Only of this broker.")] = None,
) -> None:
    """Tell which APIs of the protocol brokers serve, and in which versions."""
    from penstock.cli.asking import ask
    from penstock.cli.failures import Refusal
    from penstock.client.admin.cluster import ClusterAdmin

    found = ask(connection.settings(), ClusterAdmin, lambda admin: admin.api_versions())
    if broker is not None and broker not in found:
        raise Refusal(f"there is no broker {broker}; `penstock cluster describe` lists all brokers")
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
    broker: Annotated[int, Argument(help="A broker that is stopped and will not come back.")],
    *,
    connection: Connection,
    output: Output,
) -> None:
    """Have the controller forget a broker."""
    from penstock.cli.asking import ask
    from penstock.client.admin.cluster import ClusterAdmin

    ask(connection.settings(), ClusterAdmin, lambda admin: admin.unregister_broker(broker))
    output.result(f"broker {broker} is no longer registered", {"broker": broker})
