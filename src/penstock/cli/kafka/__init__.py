"""Kafka's own tools: its script names, its flags, its words, and its output where scripts read it.

`bin/kafka-topics.sh ARGUMENTS` runs `penstock kafka-topics ARGUMENTS`, which comes here; so does `penstock topics
--list`. One file a tool, with `run(arguments) -> exit status`. What a tool does is in `cli.commands` and
`penstock.client`: here is only how Kafka asks for it and how Kafka tells it. `flags` reads the arguments, as
Kafka's own readers do.

Deliberately different: help goes to stdout and ends with 0; where no --bootstrap-server is said,
PENSTOCK_BOOTSTRAP_SERVERS or localhost:9092 is meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.cli.kafka.flags import Flags

# Script, without `.sh`: the module that is it. Several scripts may be one module, which is then told by its
# `run(arguments, tool=)`.
TOOLS = {
    "kafka-acls": "acls",
    "kafka-broker-api-versions": "broker_api_versions",
    "kafka-cluster": "cluster",
    "kafka-configs": "configs",
    "kafka-console-consumer": "console_consumer",
    "kafka-console-producer": "console_producer",
    "kafka-consumer-groups": "consumer_groups",
    "kafka-consumer-perf-test": "consumer_perf_test",
    "kafka-delete-records": "delete_records",
    "kafka-dump-log": "dump_log",
    "kafka-e2e-latency": "e2e_latency",
    "kafka-features": "features",
    "kafka-get-offsets": "get_offsets",
    "kafka-groups": "groups",
    "kafka-leader-election": "leader_election",
    "kafka-log-dirs": "log_dirs",
    "kafka-metadata-quorum": "metadata_quorum",
    "kafka-producer-perf-test": "producer_perf_test",
    "kafka-reassign-partitions": "reassign_partitions",
    "kafka-server-start": "server_start",
    "kafka-server-stop": "server_stop",
    "kafka-storage": "storage",
    "kafka-topics": "topics",
    "kafka-transactions": "transactions",
    "kafka-verifiable-consumer": "verifiable_consumer",
    "kafka-verifiable-producer": "verifiable_producer",
    "zookeeper-server-start": "zookeeper",
    "zookeeper-server-stop": "zookeeper",
    "connect-standalone": "connect",
    "connect-distributed": "connect",
    "connect-mirror-maker": "connect",
}


def flags_of(name: str) -> Flags | None:
    """The flags of a tool, where it has any; for completion."""
    module = import_module(f"{__name__}.{TOOLS[name.removesuffix('.sh')]}")
    return getattr(module, "FLAGS", None)


def is_tool(name: str) -> bool:
    return name.removesuffix(".sh") in TOOLS


def run(name: str, arguments: Sequence[str]) -> int:
    """Run a tool by its script's name; the exit status."""
    tool = name.removesuffix(".sh")
    module = import_module(f"{__name__}.{TOOLS[tool]}")
    if getattr(module, "SERVES_SEVERAL", False):
        status: int = module.run(arguments, tool=tool)
    else:
        status = module.run(arguments)
    return status
