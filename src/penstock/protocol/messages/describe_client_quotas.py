"""DescribeClientQuotas (key 48): the quotas that match a filter of users, client ids and addresses (KIP-546).

v1 is flexible.
"""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Float64, Int8, Int32


@struct
class ComponentData:
    entity_type: str
    match_type: Int8  # 0 this name, 1 the default, 2 any
    match: str | None


@request(key=48, versions=(0, 1), flexible=1)
class DescribeClientQuotasRequest:
    components: list[ComponentData]
    strict: bool  # leave out entities with further components


@struct
class EntityData:
    entity_type: str
    entity_name: str | None  # None: the default


@struct
class ValueData:
    key: str
    value: Float64


@struct
class EntryData:
    entity: list[EntityData]
    values: list[ValueData]


@response(to=DescribeClientQuotasRequest)
class DescribeClientQuotasResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    entries: list[EntryData] | None
