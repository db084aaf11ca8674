"""FetchSnapshot (key 59): a piece of a snapshot of the metadata log. Served: v0 and v1.

v1 has the directory of the replica, and returns the leader's endpoint.
"""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse


async def handle(
    server: ControllerServer, request: FetchSnapshotRequest, context: RequestContext
) -> FetchSnapshotResponse:
    response: FetchSnapshotResponse = await server.quorum.handle(request, version=context.version)
    return response
