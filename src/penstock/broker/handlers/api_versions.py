"""ApiVersions (key 18): which requests this node takes, in which versions, and the features of its cluster.
Served: v0 to v4.

v3 names the client's software and tells features; v3 must not tell features that start at level 0, v4 does. A
version that is not known here is answered in v0 with UNSUPPORTED_VERSION and the list, so that the client can
choose another (KIP-511).

The list holds what is served and nothing else. Produce starts at 0: librdkafka switches features off where it
does not.
"""

from __future__ import annotations

import re

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.handlers import served_apis
from penstock.metadata.features import KRAFT_LEVEL, KRAFT_VERSION
from penstock.metadata.image import MetadataImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

SOFTWARE_VERSION = 3
FEATURES_FROM_ZERO_VERSION = 4
SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.\-]*[a-zA-Z0-9])?")


def handle(broker: Broker, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    if context.version >= SOFTWARE_VERSION and not (
        SOFTWARE_NAME.fullmatch(request.client_software_name)
        and SOFTWARE_NAME.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
    image = broker.metadata.image
    return ApiVersionsResponse(
        api_keys=_list_apis(),
        supported_features=_supported_features(image, broker.node_id, context.version),
        finalized_features_epoch=image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted([*image.features.items(), (KRAFT_VERSION, KRAFT_LEVEL)])
        ],
    )


def unsupported_version_response() -> ApiVersionsResponse:
    """What to answer, in v0, to a version that is not served."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_list_apis())


def _list_apis() -> list[ApiVersion]:
    return [
        ApiVersion(api_key=api.key, min_version=api.first_version, max_version=api.last_version)
        for api in served_apis()
    ]


def _supported_features(image: MetadataImage, node_id: int, version: int) -> list[SupportedFeatureKey]:
    node = image.brokers.get(node_id)
    if node is None:
        return []
    return [
        SupportedFeatureKey(name=name, min_version=levels.min_level, max_version=levels.max_level)
        for name, levels in sorted(node.features.items())
        if levels.min_level > 0 or version >= FEATURES_FROM_ZERO_VERSION
    ]
