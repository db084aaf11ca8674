"""The APIs of controller listeners and their handlers; `handler_table` says how a module of this package looks.

Their target is the `ControllerServer`. Clients' requests come in an Envelope from a broker, or directly (KIP-919).
Where this node is the active controller, `controller_channel` calls the handlers without the network.

A handler may raise `Refused` for a whole request, such as NOT_CONTROLLER. Its module then has `refuse(request, refused,
context)`, which makes the response. The channel uses it too, if no controller answers in time.
"""

from __future__ import annotations

from collections.abc import Awaitable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from penstock.broker.handler_table import Handle, HandlerTable
from penstock.metadata.errors import Refused
from penstock.protocol.apis import ApiKey

if TYPE_CHECKING:
    from penstock.broker.context import RequestContext
    from penstock.broker.controller_server import ControllerServer

SERVED: dict[ApiKey, str] = {
    ApiKey.FETCH: "fetch",
    ApiKey.API_VERSIONS: "api_versions",
    ApiKey.CREATE_TOPICS: "create_topics",
    ApiKey.DELETE_TOPICS: "delete_topics",
    ApiKey.DESCRIBE_CONFIGS: "describe_configs",
    ApiKey.ALTER_CONFIGS: "alter_configs",
    ApiKey.CREATE_PARTITIONS: "create_partitions",
    ApiKey.ELECT_LEADERS: "elect_leaders",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "incremental_alter_configs",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "alter_partition_reassignments",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "list_partition_reassignments",
    ApiKey.VOTE: "vote",
    ApiKey.BEGIN_QUORUM_EPOCH: "begin_quorum_epoch",
    ApiKey.END_QUORUM_EPOCH: "end_quorum_epoch",
    ApiKey.DESCRIBE_QUORUM: "describe_quorum",
    ApiKey.ALTER_PARTITION: "alter_partition",
    ApiKey.UPDATE_FEATURES: "update_features",
    ApiKey.ENVELOPE: "envelope",
    ApiKey.FETCH_SNAPSHOT: "fetch_snapshot",
    ApiKey.DESCRIBE_CLUSTER: "describe_cluster",
    ApiKey.BROKER_REGISTRATION: "broker_registration",
    ApiKey.BROKER_HEARTBEAT: "broker_heartbeat",
    ApiKey.UNREGISTER_BROKER: "unregister_broker",
    ApiKey.ALLOCATE_PRODUCER_IDS: "allocate_producer_ids",
    ApiKey.CONTROLLER_REGISTRATION: "controller_registration",
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: "assign_replicas_to_dirs",
    ApiKey.ADD_RAFT_VOTER: "add_raft_voter",
    ApiKey.REMOVE_RAFT_VOTER: "remove_raft_voter",
    ApiKey.UPDATE_RAFT_VOTER: "update_raft_voter",
}
"""API to module, in the order of the keys, which is the order of the ApiVersions response."""


class ControllerTable(HandlerTable["ControllerServer"]):
    def handler(self, api_key: int) -> Handle[ControllerServer]:
        """The handler of an API. It never raises `Refused`, but responds with it."""

        async def respond(server: ControllerServer, request: Any, context: RequestContext) -> object:
            try:
                return await self.call(server, request, context)
            except Refused as refused:
                return self.refuse(request, refused, context)

        return respond if hasattr(self.module(api_key), "refuse") else super().handler(api_key)

    async def call(self, server: ControllerServer, request: Any, context: RequestContext) -> Any:
        """Call the handler; raises `Refused`."""
        response: object | Awaitable[object] = self.module(context.api_key).handle(server, request, context)
        return await response if isawaitable(response) else response

    def refuse(self, request: Any, refused: Refused, context: RequestContext) -> Any:
        """The response that reports the error for all that the request asks for."""
        return self.module(context.api_key).refuse(request, refused, context)


# Earlier versions of AlterPartition name topics by name. Kafka 4 does not serve them either.
TABLE = ControllerTable(__name__, SERVED, first_versions={ApiKey.ALTER_PARTITION: 2})
