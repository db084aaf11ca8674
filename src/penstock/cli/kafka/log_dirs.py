"""`kafka-log-dirs.sh --describe`: the replicas in each log directory, as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.cli.kafka.tool import BOOTSTRAP_SERVER, COMMAND_CONFIG, Options, Tool, flag

if TYPE_CHECKING:
    from penstock.client.admin.log_dirs import LogDirectory

TOOL = Tool(
    "This tool helps to query log directory usage on the specified brokers.",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    flag("describe", "Describe the specified log directories on the specified brokers.", is_required=True),
    flag("topic-list", "Topics to query, separated by commas.", "Topic list", default=""),
    flag("broker-list", "Brokers to query, separated by commas.", "Broker list"),
)


def run(options: Options) -> int:
    from penstock.cli.kafka.admin import fail, with_admin
    from penstock.client.admin.cluster import ClusterAdmin
    from penstock.client.admin.log_dirs import LogDirsAdmin

    class LogDirsAndClusterAdmin(LogDirsAdmin, ClusterAdmin):
        pass

    topics = {name for name in options.text("topic-list").split(",") if name}
    wanted = [int(part) for part in (options.get("broker-list") or "").split(",") if part.strip().isdecimal()]

    async def work(admin: LogDirsAndClusterAdmin) -> tuple[list[int], dict[int, list[LogDirectory]]]:
        known = [broker.id for broker in (await admin.describe_cluster()).brokers]
        if set(wanted) - set(known):
            return known, {}
        chosen = sorted(wanted or known)
        print("Querying brokers for log directories information")
        return known, await admin.describe_log_dirs(chosen)

    known, found = with_admin(options, LogDirsAndClusterAdmin, work)
    if missing := sorted(set(wanted) - set(known)):
        return fail(
            f"ERROR: The given brokers do not exist from --broker-list: {','.join(map(str, missing))}."
            f" Current existent brokers: {','.join(map(str, sorted(known)))}"
        )
    print(f"Received log directory information from brokers {','.join(map(str, sorted(found)))}")
    brokers = [
        {"broker": broker, "logDirs": [_directory(directory, topics) for directory in found[broker]]}
        for broker in sorted(found)
    ]
    print(json.dumps({"brokers": brokers, "version": 1}, separators=(",", ":")))
    return 0


def _directory(directory: LogDirectory, topics: set[str]) -> dict[str, object]:
    return {
        "partitions": [
            {
                "partition": str(replica.partition),
                "size": replica.size_bytes,
                "offsetLag": replica.offset_lag,
                "isFuture": replica.is_future,
            }
            for replica in directory.replicas
            if not topics or replica.partition.topic in topics
        ],
        "error": None if directory.error is None else type(directory.error).__name__,
        "logDir": directory.path,
    }
