"""Deadlines of members. A member that misses one is removed from its group.

A timer looks at the newest state when it expires, so one that is left over does no harm.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from penstock.coordinator.group.group import GroupType
from penstock.coordinator.group.modern.group import ModernGroup
from penstock.coordinator.group.modern.member import MemberState, ModernMember
from penstock.coordinator.result import DONE, CoordinatorRecord, CoordinatorResult
from penstock.coordinator.timers import Timers
from penstock.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

G = TypeVar("G", bound=ModernGroup[Any, Any, Any])


class Timeout(NamedTuple):
    name: str
    reason: str
    """Why the member is removed, for the log."""


SESSION = Timeout("session", "its session expired")
REBALANCE = Timeout("rebalance", "it did not revoke in time")


class MemberTimeouts(Generic[G]):
    def __init__(
        self,
        group_type: GroupType,
        timers: Timers,
        find: Callable[[str], G | None],
        remove: Callable[[G, Iterable[Any]], CoordinatorResult[None]],
        *others: Timeout,
    ) -> None:
        """`others` are the timeouts that only this type of group has."""
        self._type = group_type.value
        self._timers = timers
        self._find = find
        self._remove = remove
        self._all = (SESSION, REBALANCE, *others)

    def set(self, timeout: Timeout, group_id: str, member_id: str, delay_ms: int) -> None:
        self._timers.set(
            self._key(timeout, group_id, member_id),
            delay_ms,
            partial(self._expire, timeout, group_id, member_id),
        )

    def is_set(self, timeout: Timeout, group_id: str, member_id: str) -> bool:
        return self._key(timeout, group_id, member_id) in self._timers

    def cancel(self, timeout: Timeout, group_id: str, member_id: str) -> None:
        self._timers.cancel(self._key(timeout, group_id, member_id))

    def cancel_all(self, group_id: str, member_id: str) -> None:
        for timeout in self._all:
            self.cancel(timeout, group_id, member_id)

    def set_session(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """The member has sent a heartbeat."""
        # Not `set` and `_key`: every heartbeat comes here (bench "groups heartbeating").
        self._timers.set(
            (self._type, SESSION.name, group_id, member_id),
            timeout_ms,
            partial(self._expire, SESSION, group_id, member_id),
        )

    def update_rebalance(self, group_id: str, member: ModernMember[Any]) -> None:
        """Wait for the member to revoke, if it has to."""
        if member.state is not MemberState.UNREVOKED:
            self.cancel(REBALANCE, group_id, member.member_id)
            return
        self._timers.set(
            self._key(REBALANCE, group_id, member.member_id),
            member.rebalance_timeout_ms,
            partial(self._expire, REBALANCE, group_id, member.member_id, unrevoked_epoch=member.epoch),
        )

    def removal(
        self, group: G, member_ids: Iterable[str], records: list[CoordinatorRecord]
    ) -> CoordinatorResult[None]:
        """`records` remove these members. Once they are committed, nothing is expected of the members any more."""
        member_ids = list(member_ids)

        def written(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                return
            # Not `group`: it may have been deleted and created again before the commit.
            current = self._find(group.group_id)
            for member_id in member_ids:
                if current is None or member_id not in current.members:
                    self.cancel_all(group.group_id, member_id)

        return CoordinatorResult(None, records, written)

    def _expire(
        self, timeout: Timeout, group_id: str, member_id: str, *, unrevoked_epoch: int | None = None
    ) -> CoordinatorResult[None]:
        group = self._find(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None:
            return DONE
        if unrevoked_epoch is not None and (
            member.epoch != unrevoked_epoch or member.state is not MemberState.UNREVOKED
        ):
            return DONE
        line = f"{self._type} group {group_id}: removed member {member_id}: {timeout.reason}"
        return self._remove(group, [member]).and_log(logger, line)

    def _key(self, timeout: Timeout, group_id: str, member_id: str) -> tuple[str, str, str, str]:
        """With the type, because a group may be deleted and created again with another type."""
        return (self._type, timeout.name, group_id, member_id)
