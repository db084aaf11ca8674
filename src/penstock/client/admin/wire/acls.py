"""DescribeAcls, CreateAcls and DeleteAcls. Their results have no names and are in the order of the request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.client.admin.acls import Acl, AclFilter, AclPermission, AclResourceType, PatternType
from penstock.client.admin.operations import AclOperation
from penstock.client.admin.results import Results
from penstock.client.admin.wire.common import check, value_or_error
from penstock.client.errors import PenstockError
from penstock.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from penstock.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from penstock.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def describe_request(matching: AclFilter) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=matching.resource_type,
        resource_name_filter=matching.resource_name,
        pattern_type_filter=matching.pattern,
        principal_filter=matching.principal,
        host_filter=matching.host,
        operation=matching.operation,
        permission_type=matching.permission,
    )


def read_described(response: DescribeAclsResponse) -> list[Acl]:
    check(response.error_code, response.error_message)
    return sorted(_acl(resource, entry) for resource in response.resources for entry in resource.acls)


def _acl(resource: Any, entry: Any) -> Acl:
    return Acl(
        resource_type=AclResourceType(resource.resource_type),
        resource_name=resource.resource_name,
        pattern=PatternType(resource.pattern_type),
        principal=entry.principal,
        host=entry.host,
        operation=AclOperation(entry.operation),
        permission=AclPermission(entry.permission_type),
    )


def create_request(acls: Sequence[Acl]) -> CreateAclsRequest:
    return CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                resource_pattern_type=acl.pattern,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in acls
        ]
    )


def read_created(acls: Sequence[Acl], response: CreateAclsResponse) -> Results[Acl, None]:
    return {
        acl: value_or_error(result.error_code, result.error_message, acl, None)
        for acl, result in zip(acls, response.results, strict=False)
    }


def delete_request(filters: Sequence[AclFilter]) -> DeleteAclsRequest:
    return DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=each.resource_type,
                resource_name_filter=each.resource_name,
                pattern_type_filter=each.pattern,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in filters
        ]
    )


def read_deleted(filters: Sequence[AclFilter], response: DeleteAclsResponse) -> Results[AclFilter, list[Acl]]:
    return {each: _deleted(result) for each, result in zip(filters, response.filter_results, strict=False)}


def _deleted(result: DeleteAclsFilterResult) -> list[Acl] | PenstockError:
    deleted: list[Acl] = []
    for match in result.matching_acls:
        acl = _acl(match, match)
        read = value_or_error(match.error_code, match.error_message, acl, acl)
        if isinstance(read, PenstockError):
            return read
        deleted.append(read)
    return value_or_error(result.error_code, result.error_message, None, sorted(deleted))
