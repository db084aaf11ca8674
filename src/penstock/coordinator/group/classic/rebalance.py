"""The rebalance of a classic group: its phases, their timeouts, and the sessions of members.

Functions that change the state of a group return the records to write: none, or that of a group that became empty.
There is at most one timer for each member, for each pending member id, and for each of the two phases.
"""

from __future__ import annotations

import logging
from functools import partial

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.member import Member, join_error, sync_error
from penstock.coordinator.group.classic.persistence import record_of
from penstock.coordinator.group.classic.state import State
from penstock.coordinator.group.context import GroupContext
from penstock.coordinator.result import DONE, CoordinatorRecord, CoordinatorResult
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from penstock.protocol.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)

NEW_MEMBER_TIMEOUT_MS = 5 * 60 * 1000
"""How long a new member may wait for the others. It does not know its id yet, so it has no session, and rejoins as
another member if its connection is lost. Without a limit, a long rebalance would collect such members."""

CAN_BE_REBALANCED = {State.EMPTY, State.STABLE, State.COMPLETING_REBALANCE}


class Rebalances:
    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._timers = context.timers

    # -- the first phase: members join

    def start_or_complete(self, group: ClassicGroup, reason: str) -> list[CoordinatorRecord]:
        """A member joined or left: start a rebalance, or complete the first phase if all have joined."""
        if group.state in CAN_BE_REBALANCED:
            return self.prepare(group, reason)
        return self.complete_if_all_joined(group)

    def prepare(self, group: ClassicGroup, reason: str) -> list[CoordinatorRecord]:
        """Start a rebalance: heartbeats return REBALANCE_IN_PROGRESS, and members rejoin."""
        if group.state is State.COMPLETING_REBALANCE:
            self.fail_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_syncs.clear()
        self._timers.cancel(_sync_key(group))
        is_initial = group.state is State.EMPTY
        group.move_to(State.PREPARING_REBALANCE)
        logger.info(
            "group %s: preparing a rebalance after generation %d: %s",
            group.group_id,
            group.generation,
            reason,
        )
        if is_initial:
            self._wait_for_more(group)
            return []
        if group.has_all_joined:
            return self.complete(group)
        self._wait_for_all(group)
        return []

    def complete_if_all_joined(self, group: ClassicGroup) -> list[CoordinatorRecord]:
        """An initial rebalance lasts for its whole delay, because more members may join. Without a delay it ends like
        any other (bench "classic group")."""
        if group.state is not State.PREPARING_REBALANCE or not group.has_all_joined:
            return []
        if group.previous_state is State.EMPTY and self._initial_delay_ms() > 0:
            return []
        return self.complete(group)

    def complete(self, group: ClassicGroup) -> list[CoordinatorRecord]:
        """End the first phase. Dynamic members that did not rejoin are removed; static ones stay."""
        self._timers.cancel(_join_key(group))
        for member in [*group.members.values()]:
            if member.join_wait is None and not member.is_static:
                logger.info("group %s: %s did not join in time", group.group_id, member.member_id)
                group.remove(member)
        if group.members and not group.elect_leader():
            # Only static members that did not rejoin are left: wait for them until their sessions expire.
            self._wait_for_all(group)
            return []
        group.begin_generation()
        if not group.members:
            logger.info("group %s: empty with generation %d", group.group_id, group.generation)
            return [record_of(group, {})]
        logger.info(
            "group %s: generation %d has %d members", group.group_id, group.generation, len(group.members)
        )
        for member in group.members.values():
            group.complete_join(member, current_generation(group, member))
            member.is_new = False
            self.start_session(group, member)
        group.pending_syncs = dict.fromkeys(group.members)
        self._timers.set(
            _sync_key(group),
            group.rebalance_timeout_ms,
            partial(self._expire_sync, group, group.generation),
        )
        return []

    def _wait_for_all(self, group: ClassicGroup) -> None:
        self._timers.set(_join_key(group), group.rebalance_timeout_ms, partial(self._expire_join, group))

    def _expire_join(self, group: ClassicGroup) -> CoordinatorResult[None]:
        return _written(self.complete(group)) if group.state is State.PREPARING_REBALANCE else DONE

    def _wait_for_more(self, group: ClassicGroup) -> None:
        """The members of a new group usually start together: wait, to avoid a rebalance for each."""
        delay_ms = self._initial_delay_ms()
        remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        group.has_new_member = False
        self._timers.set(
            _join_key(group), delay_ms, partial(self._end_initial_delay, group, delay_ms, remaining_ms)
        )

    def _end_initial_delay(
        self, group: ClassicGroup, delay_ms: int, remaining_ms: int
    ) -> CoordinatorResult[None]:
        """Extend the delay if a member joined meanwhile, up to the rebalance timeout in total."""
        if group.state is not State.PREPARING_REBALANCE:
            return DONE
        wanted_ms = self._initial_delay_ms()
        # Even without a delay, wait for members that join in one burst: bench "classic group".
        is_over = not group.has_new_member or (wanted_ms == 0 and not group.pending_ids)
        if is_over or remaining_ms == 0:
            return _written(self.complete(group))
        group.has_new_member = False
        next_delay_ms = min(max(wanted_ms, 1), remaining_ms)
        next_remaining_ms = max(remaining_ms - delay_ms, 0)
        self._timers.set(
            _join_key(group),
            next_delay_ms,
            partial(self._end_initial_delay, group, next_delay_ms, next_remaining_ms),
        )
        return DONE

    def _initial_delay_ms(self) -> int:
        delay_ms: int = self._context.dependencies.settings().get("group.initial.rebalance.delay.ms")
        return delay_ms

    # -- the second phase: members get their assignments

    def note_sync(self, group: ClassicGroup, member: Member) -> None:
        group.pending_syncs.pop(member.member_id, None)
        if not group.pending_syncs:
            self._timers.cancel(_sync_key(group))

    def give_assignments(self, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
        """The assignments are committed: send each member its own."""
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            if member.complete_sync(current_assignment(group, member)):
                group.keep_alive(member)  # its session may have expired while it waited
        group.move_to(State.STABLE)

    def fail_syncs(self, group: ClassicGroup, error: ErrorCode) -> None:
        for member in group.members.values():
            member.assignment = b""
            if member.complete_sync(sync_error(error)):
                group.keep_alive(member)

    def _expire_sync(self, group: ClassicGroup, generation: int) -> CoordinatorResult[None]:
        """Remove members that joined but did not send SyncGroup."""
        if group.generation != generation or group.state not in {State.COMPLETING_REBALANCE, State.STABLE}:
            return DONE
        if not group.pending_syncs:
            return DONE
        late = [*group.pending_syncs]
        for member_id in late:
            group.remove(group.members[member_id])
        return _written(self.prepare(group, f"{len(late)} members did not sync in time"))

    # -- sessions

    def start_session(self, group: ClassicGroup, member: Member, timeout_ms: int | None = None) -> None:
        member.expire = partial(self._expire_session, group, member)
        self._timers.set(
            member, member.session_timeout_ms if timeout_ms is None else timeout_ms, member.expire
        )

    def add_pending(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """A client got this member id, and should join with it (KIP-394)."""
        group.pending_ids[member_id] = None
        self._timers.set(
            _pending_key(group, member_id), timeout_ms, partial(self._expire_pending, group, member_id)
        )

    def remove_pending(self, group: ClassicGroup, member_id: str) -> None:
        group.pending_ids.pop(member_id, None)
        self._timers.cancel(_pending_key(group, member_id))

    def _expire_session(self, group: ClassicGroup, member: Member) -> CoordinatorResult[None]:
        if group.members.get(member.member_id) is not member or member.is_waiting:
            return DONE
        group.remove(member)
        if group.state is State.PREPARING_REBALANCE:
            return _written(self.complete(group) if group.has_all_joined else [])
        return _written(self.start_or_complete(group, f"the session of {member.member_id} expired"))

    def _expire_pending(self, group: ClassicGroup, member_id: str) -> CoordinatorResult[None]:
        group.pending_ids.pop(member_id, None)
        if group.state is State.PREPARING_REBALANCE and group.has_all_joined:
            return _written(self.complete(group))
        return DONE

    # -- removal of the group

    def close(self, group: ClassicGroup, error: ErrorCode) -> None:
        """The group is deleted, migrated or unloaded: fail all waiting requests and cancel all timers."""
        group.move_to(State.DEAD)
        for member in group.members.values():
            group.complete_join(member, join_error(error, member.member_id))
            member.complete_sync(sync_error(error))
            self._timers.cancel(member)
            member.forget_session()
        for member_id in group.pending_ids:
            self._timers.cancel(_pending_key(group, member_id))
        self._timers.cancel(_join_key(group))
        self._timers.cancel(_sync_key(group))


def current_generation(
    group: ClassicGroup, member: Member, *, skips_assignment: bool = False
) -> JoinGroupResponse:
    """The JoinGroup response; that of the leader has the subscriptions of all members."""
    is_leader = member.member_id == group.leader_id
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type or None,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        skip_assignment=skips_assignment and is_leader,
        member_id=member.member_id,
        members=_all_members(group) if is_leader else [],
    )


def current_assignment(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type or None,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


def _all_members(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    name = group.protocol_name
    assert name is not None, "a generation with members has a protocol"
    return [
        JoinGroupResponseMember(
            member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.protocols[name]
        )
        for member in group.members.values()
    ]


def _written(records: list[CoordinatorRecord]) -> CoordinatorResult[None]:
    return CoordinatorResult(None, records) if records else DONE


def _join_key(group: ClassicGroup) -> tuple[str, str]:
    return ("classic join", group.group_id)


def _sync_key(group: ClassicGroup) -> tuple[str, str]:
    return ("classic sync", group.group_id)


def _pending_key(group: ClassicGroup, member_id: str) -> tuple[str, str, str]:
    return ("classic pending", group.group_id, member_id)
