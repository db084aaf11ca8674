"""Which APIs are served, in which versions, and by which function.

One module an API, named after it; its `handle(broker, request, context)` returns the response, or a future of
it, or None where the protocol wants no answer. A module is imported when its API is first asked for, because
a node should be up in milliseconds; only Produce and Fetch are loaded with the first connection, so that no
request on the hot path pays for it.

Where requests that a peer sends one after the other can be answered for less together, the module also has
`can_follow(first, following)`, which tells whether two may be, and `handle_run(broker, requests, context)`, which
returns a list of the answers that `handle` would have given to each, or a future of it. The context is that of the
first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.protocol.apis import ApiKey, api

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.context import RequestContext

Handle = Callable[["Broker", Any, "RequestContext"], "object | Awaitable[object] | None"]
HandleRun = Callable[["Broker", list[Any], "RequestContext"], "list[object] | Awaitable[list[object]]"]

SERVED: dict[ApiKey, str] = {
    ApiKey.PRODUCE: "produce",
    ApiKey.FETCH: "fetch",
    ApiKey.LIST_OFFSETS: "list_offsets",
    ApiKey.METADATA: "metadata",
    ApiKey.OFFSET_COMMIT: "offset_commit",
    ApiKey.OFFSET_FETCH: "offset_fetch",
    ApiKey.FIND_COORDINATOR: "find_coordinator",
    ApiKey.JOIN_GROUP: "join_group",
    ApiKey.HEARTBEAT: "heartbeat",
    ApiKey.LEAVE_GROUP: "leave_group",
    ApiKey.SYNC_GROUP: "sync_group",
    ApiKey.DESCRIBE_GROUPS: "describe_groups",
    ApiKey.LIST_GROUPS: "list_groups",
    ApiKey.API_VERSIONS: "api_versions",
    ApiKey.CREATE_TOPICS: "create_topics",
    ApiKey.DELETE_TOPICS: "delete_topics",
    ApiKey.DELETE_RECORDS: "delete_records",
    ApiKey.INIT_PRODUCER_ID: "init_producer_id",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "offset_for_leader_epoch",
    ApiKey.ADD_PARTITIONS_TO_TXN: "add_partitions_to_txn",
    ApiKey.ADD_OFFSETS_TO_TXN: "add_offsets_to_txn",
    ApiKey.END_TXN: "end_txn",
    ApiKey.WRITE_TXN_MARKERS: "write_txn_markers",
    ApiKey.TXN_OFFSET_COMMIT: "txn_offset_commit",
    ApiKey.DESCRIBE_CONFIGS: "describe_configs",
    ApiKey.ALTER_CONFIGS: "alter_configs",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "alter_replica_log_dirs",
    ApiKey.DESCRIBE_LOG_DIRS: "describe_log_dirs",
    ApiKey.CREATE_PARTITIONS: "create_partitions",
    ApiKey.DELETE_GROUPS: "delete_groups",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "incremental_alter_configs",
    ApiKey.OFFSET_DELETE: "offset_delete",
    ApiKey.DESCRIBE_QUORUM: "describe_quorum",
    ApiKey.UPDATE_FEATURES: "update_features",
    ApiKey.DESCRIBE_CLUSTER: "describe_cluster",
    ApiKey.DESCRIBE_PRODUCERS: "describe_producers",
    ApiKey.DESCRIBE_TRANSACTIONS: "describe_transactions",
    ApiKey.LIST_TRANSACTIONS: "list_transactions",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "consumer_group_heartbeat",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "consumer_group_describe",
    ApiKey.LIST_CONFIG_RESOURCES: "list_config_resources",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "describe_topic_partitions",
    ApiKey.STREAMS_GROUP_HEARTBEAT: "streams_group_heartbeat",
    ApiKey.STREAMS_GROUP_DESCRIBE: "streams_group_describe",
}
"""API to module, in the order of the keys, which is the order of the ApiVersions answer."""


SERVED_BY_NUMBER: dict[int, str] = {int(key): module for key, module in SERVED.items()}


class ServedApi(NamedTuple):
    key: int
    first_version: int
    last_version: int


@cache
def served_apis() -> tuple[ServedApi, ...]:
    """What ApiVersions tells: every version that the protocol declares is served, or the API is not."""
    return tuple(ServedApi(int(key), api(key).first_version, api(key).last_version) for key in SERVED)


@cache
def versions_served(api_key: int) -> range:
    """The versions of one API; empty where it is not served."""
    for served in served_apis():
        if served.key == api_key:
            return range(served.first_version, served.last_version + 1)
    return range(0)


@cache
def handler_of(api_key: int) -> Handle:
    """The function that serves an API, imported at the first call. KeyError where it is not served."""
    handle: Handle = import_module(f"{__name__}.{SERVED_BY_NUMBER[api_key]}").handle
    return handle


class RunHandler(NamedTuple):
    can_follow: Callable[[Any, Any], bool]
    handle_run: HandleRun


@cache
def run_handler_of(api_key: int) -> RunHandler | None:
    """For an API whose requests may be handled together."""
    module = import_module(f"{__name__}.{SERVED_BY_NUMBER[api_key]}")
    return RunHandler(module.can_follow, module.handle_run) if hasattr(module, "handle_run") else None


def load_hot() -> None:
    """Import what the hot path needs before the first request comes."""
    handler_of(ApiKey.PRODUCE)
    handler_of(ApiKey.FETCH)
