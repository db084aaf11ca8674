"""UpdateFeatures (key 57): raise or lower the level of the cluster's features, such as metadata.version (KIP-584).

v1 adds validate_only, and upgrade_type in place of allow_downgrade (KIP-778).
v2 has one result for all features together.
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int8, Int16, Int32


@struct
class FeatureUpdateKey:
    feature: str
    max_version_level: Int16  # below 1 removes the feature
    allow_downgrade: bool = field(until=0, default=False)
    upgrade_type: Int8 = field(since=1, default=1)  # 1 upgrade, 2 safe downgrade, 3 unsafe downgrade


@request(key=57, versions=(0, 2), flexible=0)
class UpdateFeaturesRequest:
    timeout_ms: Int32 = 60_000
    feature_updates: list[FeatureUpdateKey]
    validate_only: bool = field(since=1, default=False)


@struct
class UpdatableFeatureResult:
    feature: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@response(to=UpdateFeaturesRequest)
class UpdateFeaturesResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    results: list[UpdatableFeatureResult] = field(until=1, default=[], ignorable=True)
