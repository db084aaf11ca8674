"""ApiVersions (key 18): which requests a broker takes, in which versions, and the features of its cluster.

The first request of a client, before it knows the versions of the broker. So the response to a version
that the broker does not know is in v0, with UNSUPPORTED_VERSION and the list (KIP-511), and no version of the
answer has tagged fields in its header.

v1 returns throttle_time_ms.
v2 responds before throttling (KIP-219).
v3 is flexible; adds the client's software name and version; returns the cluster's features (KIP-511, KIP-584).
v4 may return features whose min_version is 0; v3 must leave them out (KAFKA-17011).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int16, Int32, Int64


@request(key=18, versions=(0, 4), flexible=3)
class ApiVersionsRequest:
    client_software_name: str = field(since=3, default="", ignorable=True)
    client_software_version: str = field(since=3, default="", ignorable=True)


@struct
class ApiVersion:
    api_key: Int16
    min_version: Int16
    max_version: Int16


@struct
class SupportedFeatureKey:
    name: str
    min_version: Int16
    max_version: Int16


@struct
class FinalizedFeatureKey:
    name: str
    max_version_level: Int16
    min_version_level: Int16


@response(to=ApiVersionsRequest)
class ApiVersionsResponse:
    error_code: ErrorCode = ErrorCode.NONE
    api_keys: list[ApiVersion]
    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    supported_features: list[SupportedFeatureKey] = field(since=3, default=[], tag=0, ignorable=True)
    finalized_features_epoch: Int64 = field(since=3, default=-1, tag=1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = field(since=3, default=[], tag=2, ignorable=True)
    zk_migration_ready: bool = field(since=3, default=False, tag=3, ignorable=True)
