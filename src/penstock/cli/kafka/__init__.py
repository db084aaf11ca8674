"""Kafka's own tools: their script names, flags and messages, and their output where scripts read it.

`bin/kafka-topics.sh ARGUMENTS` runs `penstock kafka-topics ARGUMENTS`, which comes here; so does `penstock topics
--list`. One module a tool, with a `TOOL` that declares its flags and `run(options) -> exit status`. The work is in
`cli.commands` and `penstock.client`; a module here only translates Kafka's flags and prints Kafka's output.

Deliberate differences: help goes to stdout and exits with 0; without --bootstrap-server, PENSTOCK_BOOTSTRAP_SERVERS
or localhost:9092 is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.cli.kafka.tool import Tool

# By script name without `.sh`: the module. A module without `TOOL` serves several scripts; its `run(script)` gets
# the name.
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


def is_tool(name: str) -> bool:
    return name.removesuffix(".sh") in TOOLS


def tool_of(name: str) -> Tool | None:
    """The declaration of a tool, if it has flags; for completion."""
    return getattr(_module(name), "TOOL", None)


def run(name: str, arguments: Sequence[str]) -> int:
    """Run a tool by the name of its script. Returns the exit status."""
    module = _module(name)
    tool = tool_of(name)
    if tool is None:
        status: int = module.run(name.removesuffix(".sh"))
        return status
    if translate := getattr(module, "translate", None):
        arguments = translate(arguments)
    return tool.run(arguments, module.run)


def _module(name: str) -> ModuleType:
    return import_module(f"{__name__}.{TOOLS[name.removesuffix('.sh')]}")
