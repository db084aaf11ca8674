"""How a classic group moves: who is waited for, how long, and what happens when time is up.

Every function that moves a group returns the records that this makes necessary: none, or the one of a
group that has become empty. Timers never hold more than one action for a member, for a member to come, and
for each of the two phases.
"""

from __future__ import annotations

import logging
from functools import partial

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.member import Member, join_refusal, sync_refusal
from penstock.coordinator.group.classic.persistence import record_of
from penstock.coordinator.group.classic.state import State
from penstock.coordinator.group.context import GroupContext
from penstock.coordinator.outcome import DONE, CoordinatorRecord, Outcome
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from penstock.protocol.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)

NEW_MEMBER_TIMEOUT_MS = 5 * 60 * 1000
"""How long a member that does not know its id yet may wait for the others. It has no session, and if its
connection is lost it will come back as somebody else; without a limit a long rebalance would gather what
such clients leave behind."""

CAN_BE_REBALANCED = {State.EMPTY, State.STABLE, State.COMPLETING_REBALANCE}


class Rebalances:
    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._timers = context.timers

    # -- the first phase: everyone joins

    def start_or_complete(self, group: ClassicGroup, reason: str) -> list[CoordinatorRecord]:
        """Somebody came or went: begin a rebalance, or end the first phase of the one under way if that
        was all."""
        if group.state in CAN_BE_REBALANCED:
            return self.prepare(group, reason)
        return self.complete_if_all_joined(group)

    def prepare(self, group: ClassicGroup, reason: str) -> list[CoordinatorRecord]:
        """Begin a rebalance: members learn of it by their heartbeats, and join again."""
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
        """An initial rebalance does not end before its time, because nobody knows how many are still to
        come; but where no delay is wanted it ends like any other (bench "classic group")."""
        if group.state is not State.PREPARING_REBALANCE or not group.has_all_joined:
            return []
        if group.previous_state is State.EMPTY and self._initial_delay_ms() > 0:
            return []
        return self.complete(group)

    def complete(self, group: ClassicGroup) -> list[CoordinatorRecord]:
        """End the first phase, without those who did not come; static members may still come."""
        self._timers.cancel(_join_key(group))
        for member in [*group.members.values()]:
            if member.join_wait is None and not member.is_static:
                logger.info("group %s: %s did not join in time", group.group_id, member.member_id)
                group.remove(member)
        if group.members and not group.elect_leader():
            # Only silent static members are left: wait for them, until their sessions end.
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
            group.answer_join(member, current_generation(group, member))
            member.is_new = False
            self.start_session(group, member)
        group.pending_syncs = dict.fromkeys(group.members)
        self._timers.set(
            _sync_key(group),
            group.rebalance_timeout_ms,
            partial(self._end_sync_time, group, group.generation),
        )
        return []

    def _wait_for_all(self, group: ClassicGroup) -> None:
        self._timers.set(_join_key(group), group.rebalance_timeout_ms, partial(self._end_join_time, group))

    def _end_join_time(self, group: ClassicGroup) -> Outcome[None]:
        return _written(self.complete(group)) if group.state is State.PREPARING_REBALANCE else DONE

    def _wait_for_more(self, group: ClassicGroup) -> None:
        """The first members of a group seldom come alone: one rebalance for all of them is cheaper than
        one for each."""
        delay_ms = self._initial_delay_ms()
        remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        group.has_new_member = False
        self._timers.set(
            _join_key(group), delay_ms, partial(self._end_initial_delay, group, delay_ms, remaining_ms)
        )

    def _end_initial_delay(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> Outcome[None]:
        """Once more, if somebody came meanwhile, but in all no longer than the members' rebalance timeout."""
        if group.state is not State.PREPARING_REBALANCE:
            return DONE
        wanted_ms = self._initial_delay_ms()
        # Even where no delay is wanted, those who come in one burst are waited for: bench "classic group".
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
        delay_ms: int = self._context.around.settings().get("group.initial.rebalance.delay.ms")
        return delay_ms

    # -- the second phase: everyone receives an assignment

    def note_sync(self, group: ClassicGroup, member: Member) -> None:
        group.pending_syncs.pop(member.member_id, None)
        if not group.pending_syncs:
            self._timers.cancel(_sync_key(group))

    def give_assignments(self, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
        """They are committed: everyone may have its own."""
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            if member.answer_sync(current_assignment(group, member)):
                group.keep_alive(member)  # its session may have ended unheeded while it waited
        group.move_to(State.STABLE)

    def fail_syncs(self, group: ClassicGroup, error: ErrorCode) -> None:
        for member in group.members.values():
            member.assignment = b""
            if member.answer_sync(sync_refusal(error)):
                group.keep_alive(member)

    def _end_sync_time(self, group: ClassicGroup, generation: int) -> Outcome[None]:
        """Put out who has joined and then not asked for its assignment."""
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
        member.expire = partial(self._end_session, group, member)
        self._timers.set(
            member, member.session_timeout_ms if timeout_ms is None else timeout_ms, member.expire
        )

    def expect(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """An id was given out: keep a place for whoever comes with it (KIP-394)."""
        group.pending_ids[member_id] = None
        self._timers.set(_pending_key(group, member_id), timeout_ms, partial(self._give_up, group, member_id))

    def expect_no_more(self, group: ClassicGroup, member_id: str) -> None:
        group.pending_ids.pop(member_id, None)
        self._timers.cancel(_pending_key(group, member_id))

    def _end_session(self, group: ClassicGroup, member: Member) -> Outcome[None]:
        if group.members.get(member.member_id) is not member or member.is_excused:
            return DONE
        group.remove(member)
        if group.state is State.PREPARING_REBALANCE:
            return _written(self.complete(group) if group.has_all_joined else [])
        return _written(self.start_or_complete(group, f"the session of {member.member_id} ended"))

    def _give_up(self, group: ClassicGroup, member_id: str) -> Outcome[None]:
        group.pending_ids.pop(member_id, None)
        if group.state is State.PREPARING_REBALANCE and group.has_all_joined:
            return _written(self.complete(group))
        return DONE

    # -- the end

    def abandon(self, group: ClassicGroup, error: ErrorCode) -> None:
        """The group is no more, here or at all: tell everyone who waits, and forget every deadline."""
        group.move_to(State.DEAD)
        for member in group.members.values():
            group.answer_join(member, join_refusal(error, member.member_id))
            member.answer_sync(sync_refusal(error))
            self._timers.cancel(member)
            member.forget_session()
        for member_id in group.pending_ids:
            self._timers.cancel(_pending_key(group, member_id))
        self._timers.cancel(_join_key(group))
        self._timers.cancel(_sync_key(group))


def current_generation(
    group: ClassicGroup, member: Member, *, skips_assignment: bool = False
) -> JoinGroupResponse:
    """What a member is told that has joined; the leader, with what it needs to assign partitions."""
    is_leader = member.member_id == group.leader_id
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type or None,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        skip_assignment=skips_assignment and is_leader,
        member_id=member.member_id,
        members=_everyone(group) if is_leader else [],
    )


def current_assignment(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type or None,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


def _everyone(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    name = group.protocol_name
    assert name is not None, "a generation with members has a protocol"
    return [
        JoinGroupResponseMember(
            member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.protocols[name]
        )
        for member in group.members.values()
    ]


def _written(records: list[CoordinatorRecord]) -> Outcome[None]:
    return Outcome(None, records) if records else DONE


def _join_key(group: ClassicGroup) -> tuple[str, str]:
    return ("classic join", group.group_id)


def _sync_key(group: ClassicGroup) -> tuple[str, str]:
    return ("classic sync", group.group_id)


def _pending_key(group: ClassicGroup, member_id: str) -> tuple[str, str, str]:
    return ("classic pending", group.group_id, member_id)
