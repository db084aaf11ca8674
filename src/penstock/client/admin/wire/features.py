"""ApiVersions, which has the features, and UpdateFeatures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.client.admin.features import Feature, FeaturesDescription, FeatureUpdate
from penstock.client.admin.results import Results
from penstock.client.admin.wire.common import check, known, value_or_error
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


def describe_request() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="penstock", client_software_version="admin")


def read_described(response: ApiVersionsResponse) -> FeaturesDescription:
    check(response.error_code)
    supported = {each.name: each for each in response.supported_features}
    finalized = {each.name: each.max_version_level for each in response.finalized_features}
    return FeaturesDescription(
        features={
            name: Feature(
                name=name,
                level=finalized.get(name, 0),
                supported_min=supported[name].min_version if name in supported else None,
                supported_max=supported[name].max_version if name in supported else None,
            )
            for name in sorted({*supported, *finalized})
        },
        epoch=known(response.finalized_features_epoch),
    )


def update_request(
    updates: Mapping[str, FeatureUpdate], *, timeout_ms: int, validate_only: bool
) -> UpdateFeaturesRequest:
    return UpdateFeaturesRequest(
        timeout_ms=timeout_ms,
        feature_updates=[
            FeatureUpdateKey(
                feature=name,
                max_version_level=update.level,
                upgrade_type=update.upgrade_type,
            )
            for name, update in updates.items()
        ],
        validate_only=validate_only,
    )


def read_updated(names: Sequence[str], response: UpdateFeaturesResponse) -> Results[str, None]:
    """Older brokers return a result for each feature; newer ones one for all."""
    result = {each.feature: each for each in response.results}
    return {
        name: (
            value_or_error(result[name].error_code, result[name].error_message, name, None)
            if name in result
            else value_or_error(response.error_code, response.error_message, name, None)
        )
        for name in names
    }
