"""UpdateFeatures (key 57): upgrade or downgrade features of the cluster. Served: v0 to v2.

v0 has a flag for downgrades; v1 adds the upgrade type and `validate_only`. v2 removes the results of single features:
all are updated or none.
"""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
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
    server: ControllerServer, request: UpdateFeaturesRequest, context: RequestContext
) -> UpdateFeaturesResponse:
    if context.version < UPGRADE_TYPE_VERSION:
        for update in request.feature_updates:
            update.upgrade_type = (
                UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
            )
    await server.controller.update_features(request, requested_by=context.requester())
    response = UpdateFeaturesResponse()
    if context.version <= SINGLE_RESULTS_VERSION_MAX:
        response.results = [
            UpdatableFeatureResult(feature=update.feature) for update in request.feature_updates
        ]
    return response


def refuse(
    request: UpdateFeaturesRequest, refused: Refused, context: RequestContext
) -> UpdateFeaturesResponse:
    message = refused.message
    if refused.error is ErrorCode.INVALID_UPDATE_VERSION:
        message = f"No feature was updated: {message}"
    return UpdateFeaturesResponse(error_code=refused.error, error_message=message)
