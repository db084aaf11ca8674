"""AlterClientQuotas (key 49): set and remove the quotas of users, client ids and addresses (KIP-546).

v1 is flexible.
"""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Float64, Int32


@struct
class EntityData:
    entity_type: str
    entity_name: str | None  # None: the default


@struct
class OpData:
    key: str
    value: Float64
    remove: bool


@struct
class AlterClientQuotasRequestEntry:
    entity: list[EntityData]
    ops: list[OpData]


@request(key=49, versions=(0, 1), flexible=1)
class AlterClientQuotasRequest:
    entries: list[AlterClientQuotasRequestEntry]
    validate_only: bool


@struct
class AlterClientQuotasResponseEntry:
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    entity: list[EntityData]


@response(to=AlterClientQuotasRequest)
class AlterClientQuotasResponse:
    throttle_time_ms: Int32 = 0
    entries: list[AlterClientQuotasResponseEntry]
