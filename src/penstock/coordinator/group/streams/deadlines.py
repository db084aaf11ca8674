"""Members that are waited for: each must send heartbeats, and give up tasks in time when it is told to.

Whoever does not is put out of its group, and its tasks are free. Timers only look at the newest state when they come
due, so one that was left behind does no harm.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.config.group import GroupSettings
from penstock.coordinator.group.context import GroupContext
from penstock.coordinator.group.streams.group import StreamsGroup
from penstock.coordinator.group.streams.member import MemberState, StreamsMember
from penstock.coordinator.group.streams.replaying import Timer
from penstock.coordinator.outcome import DONE, Outcome

logger = logging.getLogger(__name__)


class Deadlines:
    def __init__(self, context: GroupContext, find: Callable[[str], StreamsGroup | None]) -> None:
        self._timers = context.timers
        self._find = find

    def expect_heartbeat(self, group_id: str, member_id: str, settings: GroupSettings) -> None:
        self._timers.set(
            Timer.session(group_id, member_id),
            settings.get("streams.session.timeout.ms"),
            lambda: self._put_out(group_id, member_id),
        )

    def watch_revocation(self, group_id: str, member: StreamsMember) -> None:
        """Wait for what it has been told to give up, if anything."""
        key = Timer.rebalance(group_id, member.member_id)
        if member.state is MemberState.UNREVOKED_TASKS:
            member_id, epoch = member.member_id, member.epoch
            self._timers.set(
                key,
                member.rebalance_timeout_ms,
                lambda: self._put_out_unless_revoked(group_id, member_id, epoch),
            )
        else:
            self._timers.cancel(key)

    def _put_out(self, group_id: str, member_id: str) -> Outcome[None]:
        group = self._find(group_id)
        if group is None or member_id not in group.members:
            return DONE
        logger.info(
            "streams group %s: member %s is removed, because its session has expired", group_id, member_id
        )
        return Outcome(None, group.removal_of(member_id))

    def _put_out_unless_revoked(self, group_id: str, member_id: str, epoch: int) -> Outcome[None]:
        group = self._find(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None or member.epoch != epoch:
            return DONE
        if member.state is not MemberState.UNREVOKED_TASKS:
            return DONE
        logger.info(
            "streams group %s: member %s is removed, because it did not give up its tasks in time",
            group_id,
            member_id,
        )
        return Outcome(None, group.removal_of(member_id))
