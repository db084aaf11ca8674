"""`kafka-cluster.sh {cluster-id,unregister,list-endpoints}`."""

from __future__ import annotations

from penstock.cli.kafka.tool import (
    BOOTSTRAP_CONTROLLER,
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Options,
    Tool,
    also_named,
    flag,
)

TOOL = Tool(
    "usage: kafka-cluster [-h] {cluster-id,unregister,list-endpoints} ...",
    also_named(BOOTSTRAP_SERVER, "-b"),
    also_named(BOOTSTRAP_CONTROLLER, "-C"),
    also_named(COMMAND_CONFIG, "-c", "--config"),
    flag("id", "The ID of the broker to unregister.", "ID", ("-i",)),
    flag("include-fenced-brokers", "Whether to include fenced brokers when listing."),
    program="kafka-cluster",
    commands={"cluster-id": (), "unregister": ("id",), "list-endpoints": ()},
)


def run(options: Options) -> int:
    from penstock.cli.kafka.admin import fail, message_of, with_admin
    from penstock.client.admin.cluster import ClusterAdmin
    from penstock.client.errors import BrokerError, UnsupportedVersion

    match options.words:
        case ["cluster-id"]:
            found = with_admin(options, ClusterAdmin, lambda admin: admin.describe_cluster())
            known = found.cluster_id
            print(
                f"Cluster ID: {known}"
                if known
                else "No cluster ID found. The Kafka version is probably too old."
            )
        case ["unregister"]:
            broker = options.number("id")
            try:
                with_admin(options, ClusterAdmin, lambda admin: admin.unregister_broker(broker))
            except UnsupportedVersion:
                return fail("The target cluster does not support the broker unregistration API.")
            except BrokerError as refused:
                return fail(message_of(refused))
            print(f"Broker {broker} is no longer registered.")
        case _:
            _list_endpoints(options)
    return 0


def _list_endpoints(options: Options) -> None:
    from penstock.cli.kafka.admin import with_admin
    from penstock.client.admin.cluster import ClusterAdmin

    fenced = options.has("include-fenced-brokers")
    found = with_admin(options, ClusterAdmin, lambda admin: admin.describe_cluster(include_fenced=fenced))
    of_controllers = options.has("bootstrap-controller")
    host_width = max([len("HOST"), *(len(broker.host) for broker in found.brokers)])
    rack_width = max([10, *(len(broker.rack or "null") for broker in found.brokers)])
    rows = [("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")]
    rows += [
        (
            str(broker.id),
            broker.host,
            str(broker.port),
            broker.rack or "null",
            "fenced" if broker.is_fenced else "unfenced",
            "controller" if of_controllers else "broker",
        )
        for broker in found.brokers
    ]
    for node, host, port, rack, state, kind in rows:
        shown = "" if of_controllers else f"{state:<10} "  # controllers are never fenced
        print(f"{node:<10} {host:<{host_width}} {port:<10} {rack:<{rack_width}} {shown}{kind:<15}")
