"""ApiVersions (key 18): the supported APIs and versions, and the features of the cluster. Served: v0 to v4.

v3 adds the software of the client and the features. v3 must not contain features that start at level 0, v4 does. An
unknown version gets a v0 response with UNSUPPORTED_VERSION and the list, so that the client can use another version
(KIP-511).

Produce starts at version 0, because librdkafka disables features otherwise.
"""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.handlers import TABLE
from penstock.broker.served_versions import api_versions_response
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


def handle(broker: Broker, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    image = broker.metadata.image
    node = image.brokers.get(broker.node_id)
    features = {} if node is None else node.features
    return api_versions_response(TABLE, image, features, broker.kraft_version(), request, context.version)
