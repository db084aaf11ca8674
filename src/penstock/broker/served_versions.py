"""The ApiVersions response of a listener: the APIs of its table, and the features of the cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from penstock.broker.handler_table import HandlerTable
from penstock.metadata.features import KRAFT_VERSION
from penstock.metadata.image import FeatureRange, MetadataImage
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


def api_versions_response(
    table: HandlerTable[Any],
    image: MetadataImage,
    features: Mapping[str, FeatureRange],
    kraft_level: int,
    request: ApiVersionsRequest,
    version: int,
) -> ApiVersionsResponse:
    """`features` are those that this node supports; `kraft_level` is that of kraft.version, which the quorum keeps."""
    if version >= SOFTWARE_VERSION and not (
        SOFTWARE_NAME.fullmatch(request.client_software_name)
        and SOFTWARE_NAME.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
    finalized = {**image.features, KRAFT_VERSION: kraft_level}
    return ApiVersionsResponse(
        api_keys=_list_apis(table),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=levels.min_level, max_version=levels.max_level)
            for name, levels in sorted(features.items())
            if levels.min_level > 0 or version >= FEATURES_FROM_ZERO_VERSION
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(finalized.items())
            if level > 0
        ],
    )


def unsupported_version_response(table: HandlerTable[Any]) -> ApiVersionsResponse:
    """The response, in v0, to a version that is not supported."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_list_apis(table))


def _list_apis(table: HandlerTable[Any]) -> list[ApiVersion]:
    return [
        ApiVersion(api_key=api.key, min_version=api.first_version, max_version=api.last_version)
        for api in table.apis
    ]
