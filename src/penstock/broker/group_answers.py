"""What handlers of group APIs share: who asks, and descriptions of many groups at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from penstock.broker.context import RequestContext
from penstock.broker.operations import GROUP_OPERATIONS
from penstock.coordinator.group.client import Client
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode


class Described(Protocol):
    """What the answers of ConsumerGroupDescribe and StreamsGroupDescribe have for each group."""

    error_code: ErrorCode
    authorized_operations: int


D = TypeVar("D", bound=Described)


def client_of(context: RequestContext) -> Client:
    """Java writes an address that has no name with a slash before it, and tools show it so."""
    return Client(context.client_id or "", f"/{context.peer_host}")


def describe_each(
    group_ids: Iterable[str],
    describe: Callable[[str], D],
    refuse: Callable[[str, ErrorCode, str | None], D],
    *,
    is_served: bool,
    tells_operations: bool,
) -> list[D]:
    """One description for each id that was asked for, and a refusal where there is none."""
    groups: list[D] = []
    for group_id in group_ids:
        if not is_served:
            groups.append(refuse(group_id, ErrorCode.UNSUPPORTED_VERSION, None))
        elif not group_id:
            groups.append(refuse(group_id, ErrorCode.INVALID_GROUP_ID, None))
        else:
            try:
                group = describe(group_id)
            except Refused as refused:
                groups.append(refuse(group_id, refused.error, refused.message))
                continue
            if tells_operations and group.error_code is ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
            groups.append(group)
    return groups
