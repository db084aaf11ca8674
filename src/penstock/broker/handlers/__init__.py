"""The APIs of broker listeners and their handlers; `handler_table` says how a module of this package looks.

Their target is the `Broker`. Only Produce and Fetch are imported at startup, so that no request on the hot path pays
for it. `forwarded` sends requests to the active controller if only it can answer them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.handler_table import HandlerTable
from penstock.protocol.apis import ApiKey

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

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
    ApiKey.ELECT_LEADERS: "forwarded",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "incremental_alter_configs",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "forwarded",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "forwarded",
    ApiKey.OFFSET_DELETE: "offset_delete",
    ApiKey.DESCRIBE_QUORUM: "forwarded",
    ApiKey.UPDATE_FEATURES: "forwarded",
    ApiKey.DESCRIBE_CLUSTER: "describe_cluster",
    ApiKey.DESCRIBE_PRODUCERS: "describe_producers",
    ApiKey.UNREGISTER_BROKER: "forwarded",
    ApiKey.DESCRIBE_TRANSACTIONS: "describe_transactions",
    ApiKey.LIST_TRANSACTIONS: "list_transactions",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "consumer_group_heartbeat",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "consumer_group_describe",
    ApiKey.LIST_CONFIG_RESOURCES: "list_config_resources",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "describe_topic_partitions",
    ApiKey.ADD_RAFT_VOTER: "forwarded",
    ApiKey.REMOVE_RAFT_VOTER: "forwarded",
    ApiKey.STREAMS_GROUP_HEARTBEAT: "streams_group_heartbeat",
    ApiKey.STREAMS_GROUP_DESCRIBE: "streams_group_describe",
}
"""API to module, in the order of the keys, which is the order of the ApiVersions response."""

TABLE: HandlerTable[Broker] = HandlerTable(__name__, SERVED)


def load_hot() -> None:
    """Import the modules of the hot path before the first request."""
    TABLE.handler(ApiKey.PRODUCE)
    TABLE.handler(ApiKey.FETCH)
