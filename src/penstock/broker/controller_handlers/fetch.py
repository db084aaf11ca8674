"""Fetch (key 1) of the metadata log, by followers and observers of the quorum. Served: v0 to v18.

The only partition is `__cluster_metadata` 0. A fetch acknowledges all records below its offset. It waits up to its
`max_wait_ms` for new records or a new high watermark; there are no sessions. Replicas are known from v15 on.
"""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.protocol.messages.fetch import FetchRequest, FetchResponse


async def handle(server: ControllerServer, request: FetchRequest, context: RequestContext) -> FetchResponse:
    response: FetchResponse = await server.quorum.handle(request, version=context.version)
    return response
