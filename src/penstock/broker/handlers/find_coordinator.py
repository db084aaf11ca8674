"""FindCoordinator (key 10): which node coordinates a group or a transaction. Served: v0 to v6.

v1 adds the type of the key, v4 asks for several keys at once, v6 for share partitions.

Groups: this node, whatever the group; it is where the group's requests will be served. A client that goes on
to send one which is not served yet sees that at once from ApiVersions, and one that only wanted a
coordinator's address (librdkafka asks for it even without a group subscription) goes on undisturbed.
Transactions: UNSUPPORTED_VERSION, which clients take as fatal and report; COORDINATOR_NOT_AVAILABLE would
have them try in silence until their timeout of a minute. Share groups: INVALID_REQUEST, as Kafka answers
where they are switched off.
"""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.endpoints import alive_endpoint
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP, TRANSACTION, SHARE = 0, 1, 2
SEVERAL_KEYS_VERSION = 4
NO_NODE_ID = -1


def handle(
    broker: Broker, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse:
    if context.version >= SEVERAL_KEYS_VERSION:
        return FindCoordinatorResponse(
            coordinators=[_find(broker, key, request.key_type, context) for key in request.coordinator_keys]
        )
    found = _find(broker, request.key, request.key_type, context)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(broker: Broker, key: str, key_type: int, context: RequestContext) -> Coordinator:
    if key_type == TRANSACTION:
        return _refuse(key, ErrorCode.UNSUPPORTED_VERSION, "transactions are not served yet")
    if key_type == SHARE:
        return _refuse(key, ErrorCode.INVALID_REQUEST, "share groups are not served yet")
    if key_type != GROUP:
        return _refuse(key, ErrorCode.INVALID_REQUEST, f"there is no type {key_type} of coordinators")
    found = alive_endpoint(broker.metadata.image, broker.node_id, context.listener)
    if found is None:
        return _refuse(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "this node is not in service yet")
    _, endpoint = found
    return Coordinator(key=key, node_id=broker.node_id, host=endpoint.host, port=endpoint.port)


def _refuse(key: str, error: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=NO_NODE_ID, host="", port=-1, error_code=error, error_message=message)
