"""`kafka-cluster.sh {cluster-id,unregister,list-endpoints}`."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cli.kafka.flags import BOOTSTRAP_SERVER, COMMAND_CONFIG, BadFlags, Flag, Flags, Said, run_tool

FLAGS = Flags(
    "usage: kafka-cluster [-h] {cluster-id,unregister,list-endpoints} ...",
    BOOTSTRAP_SERVER._replace(shorts=("-b",)),
    Flag("bootstrap-controller", "The controllers to connect to.", "BOOTSTRAP_CONTROLLER", ("-C",)),
    COMMAND_CONFIG._replace(shorts=("-c", "--config")),
    Flag("id", "The ID of the broker to unregister.", "ID", ("-i",)),
    Flag("include-fenced-brokers", "Whether to include fenced brokers when listing."),
    words="command",
)


def run(arguments: Sequence[str]) -> int:
    return run_tool(FLAGS, arguments, _run)


def _run(said: Said) -> int:
    from penstock.cli.kafka.tools import ask_cluster, fail, message_of, require
    from penstock.client.admin.cluster import ClusterAdmin
    from penstock.client.errors import BrokerError, UnsupportedVersion

    match said.words:
        case ["cluster-id"]:
            found = ask_cluster(said, ClusterAdmin, lambda admin: admin.describe_cluster())
            known = found.cluster_id
            print(
                f"Cluster ID: {known}"
                if known
                else "No cluster ID found. The Kafka version is probably too old."
            )
        case ["unregister"]:
            require(said, "id")
            broker = said.number("id")
            try:
                ask_cluster(said, ClusterAdmin, lambda admin: admin.unregister_broker(broker))
            except UnsupportedVersion:
                return fail("The target cluster does not support the broker unregistration API.")
            except BrokerError as refused:
                return fail(message_of(refused))
            print(f"Broker {broker} is no longer registered.")
        case ["list-endpoints"]:
            _list_endpoints(said)
        case []:
            raise BadFlags("kafka-cluster: error: too few arguments")
        case words:
            raise BadFlags(f"kafka-cluster: error: invalid choice: '{words[0]}'")
    return 0


def _list_endpoints(said: Said) -> None:
    from penstock.cli.kafka.tools import ask_cluster
    from penstock.client.admin.cluster import ClusterAdmin

    fenced = said.has("include-fenced-brokers")
    found = ask_cluster(said, ClusterAdmin, lambda admin: admin.describe_cluster(include_fenced=fenced))
    of_controllers = said.has("bootstrap-controller")
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
        shown = "" if of_controllers else f"{state:<10} "  # nobody fences a controller
        print(f"{node:<10} {host:<{host_width}} {port:<10} {rack:<{rack_width}} {shown}{kind:<15}")
