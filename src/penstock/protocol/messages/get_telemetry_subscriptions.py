"""GetTelemetrySubscriptions (key 71): which metrics the broker wants from a client, and how often (KIP-714)."""

from __future__ import annotations

from penstock.protocol.declare import request, response
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int8, Int32, Uuid


@request(key=71, versions=(0, 0), flexible=0)
class GetTelemetrySubscriptionsRequest:
    client_instance_id: Uuid  # zero at first: the broker chooses one


@response(to=GetTelemetrySubscriptionsRequest)
class GetTelemetrySubscriptionsResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    client_instance_id: Uuid
    subscription_id: Int32
    accepted_compression_types: list[Int8]
    push_interval_ms: Int32
    telemetry_max_bytes: Int32
    delta_temporality: bool
    requested_metrics: list[str]  # prefixes; one empty string is everything
