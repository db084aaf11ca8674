"""BrokerRegistration (key 62): a broker registers with the controller when it starts (KIP-631).

v1 adds is_migrating_zk_broker (KIP-866).
v2 adds log_dirs (KIP-858).
v3 adds previous_broker_epoch, which tells a clean shutdown from a crash (KIP-966).
v4 may name features whose min_supported_version is 0 (KAFKA-17011).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int16, Int32, Int64, UInt16, Uuid


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


@request(key=62, versions=(0, 4), flexible=0)
class BrokerRegistrationRequest:
    broker_id: Int32
    cluster_id: str
    incarnation_id: Uuid
    listeners: list[Listener]
    features: list[Feature]
    rack: str | None
    is_migrating_zk_broker: bool = field(since=1, default=False)
    log_dirs: list[Uuid] = field(since=2, default=[], ignorable=True)
    previous_broker_epoch: Int64 = field(since=3, default=-1, ignorable=True)


@response(to=BrokerRegistrationRequest)
class BrokerRegistrationResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    broker_epoch: Int64 = -1
