"""ControllerRegistration (key 70): a controller registers with the active one when it starts (KIP-919)."""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int16, Int32, UInt16, Uuid


@struct
class Listener:
    name: str
    host: str
    port: UInt16
    security_protocol: Int16


@struct
class Feature:
    name: str
    min_supported_version: Int16
    max_supported_version: Int16


@request(key=70, versions=(0, 0), flexible=0)
class ControllerRegistrationRequest:
    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: bool
    listeners: list[Listener]
    features: list[Feature]


@response(to=ControllerRegistrationRequest)
class ControllerRegistrationResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
