"""JoinGroup to a classic group: whether someone may come in, and what its coming means for the others.

The answer of one that must wait is kept in its `Member`; `rebalance` gives it away.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.member import (
    Member,
    Protocols,
    join_refusal,
    read_protocols,
    rebalance_timeout_of,
)
from penstock.coordinator.group.classic.persistence import assignments_of, record_of
from penstock.coordinator.group.classic.rebalance import NEW_MEMBER_TIMEOUT_MS, Rebalances, current_generation
from penstock.coordinator.group.classic.state import State
from penstock.coordinator.group.client import Client
from penstock.coordinator.outcome import Answer, Outcome
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

MEMBER_ID_REQUIRED_VERSION = 4
SKIP_ASSIGNMENT_VERSION = 9


@dataclass(frozen=True, slots=True)
class Joining:
    """A request, with what is read from it once."""

    request: JoinGroupRequest
    client: Client
    version: int
    protocols: Protocols

    @classmethod
    def of(cls, request: JoinGroupRequest, *, client: Client, version: int) -> Joining:
        return cls(request, client, version, read_protocols(request.protocols))

    @property
    def rebalance_timeout_ms(self) -> int:
        return rebalance_timeout_of(self.request, self.version)

    @property
    def reason(self) -> str:
        """The client's own words (KIP-800)."""
        return self.request.reason or "no reason given"

    def as_member(self, member_id: str) -> Member:
        return Member(
            member_id,
            instance_id=self.request.group_instance_id,
            client=self.client,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.request.session_timeout_ms,
            protocols=self.protocols,
        )

    def refusal(self, error: ErrorCode, member_id: str | None = None) -> Outcome[JoinGroupResponse]:
        return Outcome(join_refusal(error, self.request.member_id if member_id is None else member_id))


def has_room(group: ClassicGroup, member_id: str, *, size_max: int) -> bool:
    """Whether the group may take this one. While members come they are counted as they come, so that a
    group which is too large, because the limit was lowered, loses those who come last."""
    member = group.members.get(member_id)
    if group.state is State.PREPARING_REBALANCE:
        return (member is not None and member.join_wait is not None) or group.joined_count < size_max
    if group.state in {State.COMPLETING_REBALANCE, State.STABLE}:
        return member is not None or len(group.members) < size_max
    return True


def join_as_new(rebalances: Rebalances, group: ClassicGroup, joining: Joining) -> Outcome[JoinGroupResponse]:
    """Someone without a member id."""
    request = joining.request
    if not group.supports(request.protocol_type, joining.protocols):
        return joining.refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    instance_id = request.group_instance_id
    member_id = group.make_member_id(joining.client.client_id, instance_id)
    if instance_id is not None:
        current_id = group.static_ids.get(instance_id)
        if current_id is not None:
            return _take_over(rebalances, group, group.members[current_id], member_id, joining)
    elif joining.version >= MEMBER_ID_REQUIRED_VERSION:
        rebalances.expect(group, member_id, request.session_timeout_ms)
        return joining.refusal(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    return _come_in(rebalances, group, member_id, joining)


def join_again(rebalances: Rebalances, group: ClassicGroup, joining: Joining) -> Outcome[JoinGroupResponse]:
    """Someone with a member id: a member, or one who was just given the id."""
    request = joining.request
    member_id = request.member_id
    if not group.supports(request.protocol_type, joining.protocols):
        return joining.refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if member_id in group.pending_ids:
        if request.group_instance_id is not None:
            # Such ids are not given to static members. Kafka does not foresee this either, and says so like
            # this.
            return joining.refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "")
        rebalances.expect_no_more(group, member_id)
        return _come_in(rebalances, group, member_id, joining)
    error = group.check_member(member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return joining.refusal(error)
    member = group.members[member_id]
    state = group.state
    if state is State.PREPARING_REBALANCE:
        return _come_back(rebalances, group, member, joining)
    # Whoever asks again with the same metadata may have missed its answer. Not so a leader of a stable group:
    # what it knows and this coordinator does not, such as new partitions of a topic, calls for new
    # assignments.
    if member.has_same_protocols(joining.protocols) and not (
        state is State.STABLE and group.leader_id == member_id
    ):
        return Outcome(current_generation(group, member))
    return _come_back(rebalances, group, member, joining)


def _come_in(
    rebalances: Rebalances, group: ClassicGroup, member_id: str, joining: Joining
) -> Outcome[JoinGroupResponse]:
    if group.state is State.PREPARING_REBALANCE and group.previous_state is State.EMPTY:
        group.has_new_member = True
    if not group.members:
        group.protocol_type = joining.request.protocol_type
    member = joining.as_member(member_id)
    member.is_new = True
    group.add(member)
    answer = _wait(group, member)
    rebalances.start_session(group, member, NEW_MEMBER_TIMEOUT_MS)
    reason = f"{member_id} joins: {joining.reason}"
    return Outcome(answer, rebalances.start_or_complete(group, reason))


def _come_back(
    rebalances: Rebalances, group: ClassicGroup, member: Member, joining: Joining
) -> Outcome[JoinGroupResponse]:
    _take_over_metadata(group, member, joining)
    answer = _wait(group, member)
    reason = f"{member.member_id} joins again: {joining.reason}"
    return Outcome(answer, rebalances.start_or_complete(group, reason))


def _take_over(
    rebalances: Rebalances, group: ClassicGroup, old: Member, member_id: str, joining: Joining
) -> Outcome[JoinGroupResponse]:
    """A static member has come back under a new id; where that changes nothing for the others, they never
    learn of it."""
    old_leader_id = group.leader_id
    new = joining.as_member(member_id)
    new.assignment = old.assignment
    group.replace(old, new)
    answer = _wait(group, new)
    rebalances.start_session(group, new)
    reason = f"static member {new.instance_id} joins again: {joining.reason}"
    if group.state is not State.STABLE or group.select_protocol() != group.protocol_name:
        # If the leader is about to assign partitions, it would do so to the old id.
        return Outcome(answer, rebalances.start_or_complete(group, reason))

    def written(error: ErrorCode) -> None:
        if group.members.get(member_id) is not new or new.join_wait is None:
            return  # it has been answered otherwise, or left
        if error is not ErrorCode.NONE:
            _give_back(rebalances, group, old, new, old_leader_id, error)
        elif group.state is not State.STABLE:
            return  # a rebalance has begun meanwhile, and will answer it
        elif joining.version >= SKIP_ASSIGNMENT_VERSION:
            group.answer_join(new, current_generation(group, new, skips_assignment=True))
        else:
            # An older client that finds itself leading would assign anew: let it believe in the leader that
            # it was (KIP-814).
            response = current_generation(group, new)
            response.leader = old_leader_id or ""
            response.members = []
            group.answer_join(new, response)

    return Outcome(answer, [record_of(group, assignments_of(group))], written)


def _give_back(
    rebalances: Rebalances,
    group: ClassicGroup,
    old: Member,
    new: Member,
    old_leader_id: str | None,
    error: ErrorCode,
) -> None:
    """The change of ids could not be written down, so it has not happened."""
    response = current_generation(group, new)
    response.error_code, response.member_id, response.members = error, "", []
    response.leader = old_leader_id or ""
    group.answer_join(new, response)
    group.replace(new, old)
    rebalances.start_session(group, old)


def _take_over_metadata(group: ClassicGroup, member: Member, joining: Joining) -> None:
    group.update(
        member,
        protocols=joining.protocols,
        rebalance_timeout_ms=joining.rebalance_timeout_ms,
        session_timeout_ms=joining.request.session_timeout_ms,
    )


def _wait(group: ClassicGroup, member: Member) -> Answer[JoinGroupResponse]:
    answer: Answer[JoinGroupResponse] = Answer()
    group.let_wait(member, answer)
    return answer
