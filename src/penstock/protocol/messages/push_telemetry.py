"""PushTelemetry (key 72): a client sends the requested metrics, in OTLP (KIP-714)."""

from __future__ import annotations

from penstock.protocol.declare import request, response
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int8, Int32, Uuid


@request(key=72, versions=(0, 0), flexible=0)
class PushTelemetryRequest:
    client_instance_id: Uuid
    subscription_id: Int32
    terminating: bool
    compression_type: Int8
    metrics: bytes


@response(to=PushTelemetryRequest)
class PushTelemetryResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
