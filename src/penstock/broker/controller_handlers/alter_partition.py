"""AlterPartition (key 56): the leader of a partition changes its ISR. Served: v2 and v3.

v3 adds the epochs of the brokers (KIP-903). v0 and v1 named topics by name, which Kafka 4 does not serve either.
"""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.controller.alter_partition import alter_partition
from penstock.controller.controller import OWN_TIMEOUT_MS
from penstock.metadata.errors import Refused
from penstock.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse


async def handle(
    server: ControllerServer, request: AlterPartitionRequest, context: RequestContext
) -> AlterPartitionResponse:
    return await server.controller.run(
        lambda state: alter_partition(state, request),
        timeout_ms=OWN_TIMEOUT_MS,
        requested_by=context.requester(),
    )


def refuse(
    request: AlterPartitionRequest, refused: Refused, context: RequestContext
) -> AlterPartitionResponse:
    return AlterPartitionResponse(error_code=refused.error, topics=[])
