"""UpdateFeatures (key 57): raise or lower the level of the cluster's features. Served: v0 to v2.

v0 allows a downgrade by a flag; v1 says which kind of change it is, and can validate only. v2 drops the
results of single features: all are updated, or none.
"""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.controller.features import UpgradeType
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE_TYPE_VERSION = 1
SINGLE_RESULTS_VERSION_MAX = 1


async def handle(
    broker: Broker, request: UpdateFeaturesRequest, context: RequestContext
) -> UpdateFeaturesResponse:
    if context.version < UPGRADE_TYPE_VERSION:
        for update in request.feature_updates:
            update.upgrade_type = (
                UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
            )
    try:
        await broker.controller.update_features(request, requested_by=context.requester())
    except Refused as refused:
        message = refused.message
        if refused.error is ErrorCode.INVALID_UPDATE_VERSION:
            message = f"No feature was updated, because of one: {message}"
        return UpdateFeaturesResponse(error_code=refused.error, error_message=message)
    response = UpdateFeaturesResponse()
    if context.version <= SINGLE_RESULTS_VERSION_MAX:
        response.results = [
            UpdatableFeatureResult(feature=update.feature) for update in request.feature_updates
        ]
    return response
