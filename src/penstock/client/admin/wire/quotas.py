"""DescribeClientQuotas and AlterClientQuotas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from penstock.client.admin.quotas import ANY, QuotaEntity, QuotaFilter
from penstock.client.admin.results import Results
from penstock.client.admin.wire.common import check, value_or_error
from penstock.client.errors import PenstockError
from penstock.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
from penstock.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

THIS_NAME, THE_DEFAULT, ANY_NAME = range(3)


def describe_request(matching: QuotaFilter) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest(
        components=[_component(kind, name) for kind, name in matching.parts.items()], strict=matching.strict
    )


def _component(kind: str, name: str | None) -> ComponentData:
    if name is None:
        return ComponentData(entity_type=kind, match_type=THE_DEFAULT, match=None)
    if name == ANY:
        return ComponentData(entity_type=kind, match_type=ANY_NAME, match=None)
    return ComponentData(entity_type=kind, match_type=THIS_NAME, match=name)


def read_described(response: DescribeClientQuotasResponse) -> dict[QuotaEntity, dict[str, float]]:
    check(response.error_code, response.error_message)
    return {
        _entity(entry.entity): {value.key: value.value for value in entry.values}
        for entry in response.entries or ()
    }


def alter_request(
    changes: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool
) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(
        entries=[
            AlterClientQuotasRequestEntry(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.parts],
                ops=[
                    OpData(key=key, value=0.0 if value is None else float(value), remove=value is None)
                    for key, value in values.items()
                ],
            )
            for entity, values in changes.items()
        ],
        validate_only=validate_only,
    )


def read_altered(response: AlterClientQuotasResponse) -> Results[QuotaEntity, None]:
    results: dict[QuotaEntity, PenstockError | None] = {}
    for result in response.entries:
        entity = _entity(result.entity)
        results[entity] = value_or_error(result.error_code, result.error_message, entity, None)
    return results


class _Part(Protocol):
    entity_type: str
    entity_name: str | None


def _entity(parts: Iterable[_Part]) -> QuotaEntity:
    # Sorted, because entities are compared by their parts and brokers send them in any order.
    return QuotaEntity(tuple(sorted(((each.entity_type, each.entity_name) for each in parts), reverse=True)))
