"""ApiVersions (key 18): the APIs of the controller listener, and the features of the cluster. Served: v0 to v4."""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_handlers import TABLE
from penstock.broker.controller_server import ControllerServer
from penstock.broker.served_versions import api_versions_response
from penstock.metadata.features import SUPPORTED
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


def handle(
    server: ControllerServer, request: ApiVersionsRequest, context: RequestContext
) -> ApiVersionsResponse:
    return api_versions_response(
        TABLE, server.metadata.image, SUPPORTED, server.quorum.kraft_version, request, context.version
    )
