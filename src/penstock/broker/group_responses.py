"""Shared parts of group handlers: the client of a request, and descriptions of several groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from penstock.broker.context import RequestContext
from penstock.broker.operations import GROUP_OPERATIONS
from penstock.coordinator.group.client import Client
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode


class Described(Protocol):
    """The common fields of described groups in ConsumerGroupDescribe and StreamsGroupDescribe."""

    error_code: ErrorCode
    authorized_operations: int


D = TypeVar("D", bound=Described)


def client_of(context: RequestContext) -> Client:
    """The client as tools show it: Java writes an unresolved address with a slash before it."""
    return Client(context.client_id or "", f"/{context.peer_host}")


def describe_each(
    group_ids: Iterable[str],
    describe: Callable[[str], D],
    refuse: Callable[[str, ErrorCode, str | None], D],
    *,
    is_enabled: bool,
    include_operations: bool,
) -> list[D]:
    """A description, or an error, for each group id."""
    groups: list[D] = []
    for group_id in group_ids:
        if not is_enabled:
            groups.append(refuse(group_id, ErrorCode.UNSUPPORTED_VERSION, None))
        elif not group_id:
            groups.append(refuse(group_id, ErrorCode.INVALID_GROUP_ID, None))
        else:
            try:
                group = describe(group_id)
            except Refused as refused:
                groups.append(refuse(group_id, refused.error, refused.message))
                continue
            if include_operations and group.error_code is ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
            groups.append(group)
    return groups
