"""Classic groups under any sequence of events: members join, leave and fail, time passes, commits are late or refused,
coordinators change. After every event:

- a partition has at most one owner in a generation, and the generations that members see only go up;
- a waiting request gets a response within its timeout;
- the state of the group is consistent, and nothing is left when all members are removed;
- members that go on end up in one stable generation in which every partition has an owner.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from harness.classic_groups import (
    GROUP,
    INITIAL_DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    ClassicHarness,
    Reply,
    subscription,
)
from penstock.coordinator.group.classic.state import State
from penstock.coordinator.result import CoordinatorResult
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.join_group import JoinGroupResponse
from penstock.protocol.messages.leave_group import MemberIdentity
from penstock.protocol.messages.sync_group import SyncGroupResponse

PARTITIONS = range(5)
PLAYERS_MAX = 8
WAIT_MAX_MS = REBALANCE_MS + INITIAL_DELAY_MS

FORGET_ID = {ErrorCode.UNKNOWN_MEMBER_ID}
GIVE_UP = {ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED}
START_OVER = {
    ErrorCode.MEMBER_ID_REQUIRED,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_MEMBER_ID,
}


class Player:
    """A client that keeps to the protocol, one request at a time."""

    def __init__(self, instance_id: str | None, version: int, topic: str) -> None:
        self.instance_id = instance_id
        self.version = version
        self.protocols = {"range": subscription(topic), "roundrobin": subscription(topic)}
        self.member_id = ""
        self.joining: Reply[JoinGroupResponse] | None = None
        self.joined: JoinGroupResponse | None = None
        self.syncing: Reply[SyncGroupResponse] | None = None
        self.is_stable = False
        self.is_gone = False

    @property
    def identity(self) -> str:
        return self.instance_id or self.member_id

    def start_over(self, error: ErrorCode) -> None:
        assert error in START_OVER | GIVE_UP, error
        self.joining = self.joined = self.syncing = None
        self.is_stable = False
        self.is_gone = self.is_gone or error in GIVE_UP
        if error in FORGET_ID:
            self.member_id = ""


class GroupMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.harness = ClassicHarness()
        self.players: list[Player] = []
        self.owners: dict[tuple[int, int], str] = {}
        self.told_generation = 0
        self.seen_generation = 0
        self.committed_end = 0
        self.unanswered: list[tuple[Reply[Any], int]] = []
        """With the time since which they wait, also those of disconnected clients."""
        self.assignments_made = 0

    # -- events

    @precondition(lambda self: len(self.players) < PLAYERS_MAX)
    @rule(
        instance_id=st.sampled_from([None, None, "shelf-1", "shelf-2"]),
        version=st.sampled_from([3, 5, 9]),
        topic=st.sampled_from(["one", "two"]),
    )
    def come(self, instance_id: str | None, version: int, topic: str) -> None:
        self.players.append(Player(instance_id if version >= 5 else None, version, topic))

    @precondition(lambda self: self.players)
    @rule(which=st.integers(0, PLAYERS_MAX - 1))
    def act(self, which: int) -> None:
        self._act(self.players[which % len(self.players)])

    @rule(rounds=st.integers(1, 6))
    def go_on(self, rounds: int) -> None:
        """The usual case: every client takes its next step, repeatedly."""
        for _ in range(rounds):
            for player in self.players:
                self._act(player)
            self._advance(1_000)

    @precondition(lambda self: self.players)
    @rule(which=st.integers(0, PLAYERS_MAX - 1), forgets=st.booleans())
    def reconnect(self, which: int, forgets: bool) -> None:
        """The connection and the response are lost; a restarted client does not know its member id."""
        player = self.players[which % len(self.players)]
        player.start_over(ErrorCode.UNKNOWN_MEMBER_ID if forgets else ErrorCode.REBALANCE_IN_PROGRESS)

    @precondition(lambda self: self.players)
    @rule(which=st.integers(0, PLAYERS_MAX - 1))
    def vanish(self, which: int) -> None:
        self.players.pop(which % len(self.players))

    @precondition(lambda self: self.players)
    @rule(which=st.integers(0, PLAYERS_MAX - 1), by_instance=st.booleans())
    def leave(self, which: int, by_instance: bool) -> None:
        player = self.players.pop(which % len(self.players))
        identity = MemberIdentity(member_id=player.member_id)
        if by_instance and player.instance_id is not None:
            identity = MemberIdentity(member_id="", group_instance_id=player.instance_id)
        try:
            self.harness.leave(identity)
        except Refused:
            assert self.harness.refuse is not None

    @precondition(lambda self: self.players)
    @rule(which=st.integers(0, PLAYERS_MAX - 1), topic=st.sampled_from(["one", "two"]))
    def subscribe(self, which: int, topic: str) -> None:
        player = self.players[which % len(self.players)]
        player.protocols = {"roundrobin": subscription(topic), "range": subscription(topic)}
        if player.joining is None and player.syncing is None:
            player.start_over(ErrorCode.REBALANCE_IN_PROGRESS)

    @rule(generation=st.integers(-1, 5), member_id=st.sampled_from(["", "unknown-member"]))
    def strangers(self, generation: int, member_id: str) -> None:
        assert self.harness.heartbeat(member_id, generation) is ErrorCode.UNKNOWN_MEMBER_ID
        assert self.harness.join("unknown-member").error in {
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        }
        assert self.harness.join(protocols={}).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    @rule(
        duration_ms=st.sampled_from([0, 1, 100, INITIAL_DELAY_MS, SESSION_MS // 2, SESSION_MS, REBALANCE_MS])
    )
    def wait(self, duration_ms: int) -> None:
        self._advance(duration_ms)

    @rule()
    def commits_take_time(self) -> None:
        self.harness.is_committing = False

    @rule()
    def commit(self) -> None:
        self.harness.commit()
        self.harness.is_committing = True
        self.unanswered = [(reply, self.harness.clock_ms) for reply, _ in self.unanswered]

    @rule(refuses=st.booleans())
    def refuse(self, refuses: bool) -> None:
        self.harness.refuse = ErrorCode.COORDINATOR_NOT_AVAILABLE if refuses else None

    @rule(loses=st.booleans())
    def change_coordinators(self, loses: bool) -> None:
        """Uncommitted records may be lost."""
        old = self.harness
        old.classic.unloaded()
        assert not len(old.context.timers)
        assert not any(reply.is_waiting for reply, _ in self.unanswered)
        if loses:
            del old.log[self.committed_end :]
        self.harness = old.successor()
        self.seen_generation = 0
        self._check_timers()

    @precondition(lambda self: self._is_forgettable())
    @rule()
    def forget(self) -> None:
        """As after the expiration of the group's last offset."""
        if self.harness.refuse is None and self.harness.is_committing:
            self.harness.play(CoordinatorResult(None, self.harness.group().tombstones()))
            self.owners.clear()
            self.told_generation = self.seen_generation = 0

    def _is_forgettable(self) -> bool:
        return GROUP in self.harness.context.groups and not self.harness.group().is_kept_without_offsets

    # -- clients

    def _act(self, player: Player) -> None:
        if player.is_gone:
            return
        self._read(player)
        if player.joining is not None or player.syncing is not None:
            return
        if player.is_stable:
            self._beat(player)
        elif player.joined is not None:
            self._sync(player, player.joined)
        else:
            self._join(player)
        self._read(player)

    def _join(self, player: Player) -> None:
        try:
            player.joining = self.harness.join(
                player.member_id,
                instance_id=player.instance_id,
                version=player.version,
                protocols=player.protocols,
            )
        except Refused:
            assert self.harness.refuse is not None
            return
        self.unanswered.append((player.joining, self.harness.clock_ms))

    def _sync(self, player: Player, joined: JoinGroupResponse) -> None:
        assignments: dict[str, bytes] = {}
        if joined.leader == joined.member_id and not joined.skip_assignment:
            members = [member.member_id for member in joined.members]
            self.assignments_made += 1  # a leader may send other assignments the second time
            for partition in PARTITIONS:
                owner = members[(partition + self.assignments_made) % len(members)]
                assignments[owner] = assignments.get(owner, b"") + bytes([partition])
        player.syncing = self.harness.sync(joined, assignments, group_instance_id=player.instance_id)
        self.unanswered.append((player.syncing, self.harness.clock_ms))

    def _beat(self, player: Player) -> None:
        assert player.joined is not None
        error = self.harness.heartbeat(
            player.member_id, player.joined.generation_id, instance_id=player.instance_id
        )
        if error is not ErrorCode.NONE:
            player.start_over(error)

    def _read(self, player: Player) -> None:
        """Handle the responses that have arrived."""
        if player.joining is not None and not player.joining.is_waiting:
            response = player.joining.value
            player.joining = None
            if response.error_code in {ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED}:
                player.member_id = response.member_id
            if response.error_code is ErrorCode.NONE:
                player.joined = response
            else:
                player.start_over(response.error_code)
        if player.syncing is not None and not player.syncing.is_waiting:
            assigned = player.syncing.value
            player.syncing = None
            if assigned.error_code is not ErrorCode.NONE:
                player.start_over(assigned.error_code)
                return
            player.is_stable = True
            assert player.joined is not None
            self._own(player, player.joined.generation_id, assigned.assignment)

    def _own(self, player: Player, generation: int, assignment: bytes) -> None:
        assert generation >= self.told_generation
        self.told_generation = generation
        for partition in assignment:
            owner = self.owners.setdefault((generation, partition), player.identity)
            assert owner == player.identity, f"{partition} of generation {generation}"

    def _advance(self, duration_ms: int) -> None:
        refuse, end_ms = self.harness.refuse, self.harness.clock_ms + duration_ms
        while self.harness.clock_ms < end_ms or duration_ms == 0:
            try:
                self.harness.advance(end_ms - self.harness.clock_ms)
            except Refused:
                assert refuse is not None
                continue  # the record of the timer was refused; it is retried
            break

    # -- invariants

    @invariant()
    def note_commits(self) -> None:
        if self.harness.is_committing:
            self.committed_end = len(self.harness.log)

    @invariant()
    def everyone_is_answered_in_time(self) -> None:
        self.unanswered = [waiting for waiting in self.unanswered if waiting[0].is_waiting]
        if self.harness.is_committing:
            for _, since_ms in self.unanswered:
                assert self.harness.clock_ms - since_ms <= WAIT_MAX_MS
        for player in self.players:
            self._read(player)

    @invariant()
    def the_group_agrees_with_itself(self) -> None:
        if GROUP not in self.harness.context.groups:
            assert not len(self.harness.context.timers)
            return
        group = self.harness.group()
        members = group.members.values()
        assert group.joined_count == sum(member.join_wait is not None for member in members)
        assert group.static_ids == {m.instance_id: m.member_id for m in members if m.instance_id is not None}
        assert (group.leader_id in group.members) if group.members else group.leader_id is None
        assert not set(group.pending_ids) & set(group.members)
        assert set(group.pending_syncs) <= set(group.members)
        assert (group.state is State.EMPTY) <= (not group.members)
        if group.state is not State.COMPLETING_REBALANCE:
            assert all(member.sync_wait is None for member in members)
        assert group.generation >= self.seen_generation
        self.seen_generation = group.generation
        self._check_timers()

    def _check_timers(self) -> None:
        if GROUP in self.harness.context.groups:
            group = self.harness.group()
            assert len(self.harness.context.timers) <= len(group.members) + len(group.pending_ids) + 2
            for member in group.members.values():
                assert member in self.harness.context.timers or member.is_waiting, "it has no session timer"

    def teardown(self) -> None:
        if not hasattr(self, "harness"):
            return
        self.harness.refuse = None
        self.commit()
        self._converge()
        self._vanish_all()

    def _converge(self) -> None:
        """All clients go on, except static members that were replaced."""
        self.go_on(2 * WAIT_MAX_MS // 1_000)
        going = [player for player in self.players if not player.is_gone]
        if not going:
            return
        group = self.harness.group()
        assert group.state is State.STABLE
        assert all(player.is_stable for player in going)
        assert {player.member_id for player in going} == set(group.members)
        owned = [partition for member in group.members.values() for partition in member.assignment]
        assert sorted(owned) == list(PARTITIONS)

    def _vanish_all(self) -> None:
        self.players.clear()
        self._advance(10 * WAIT_MAX_MS)
        assert not any(reply.is_waiting for reply, _ in self.unanswered)
        assert not len(self.harness.context.timers)
        if GROUP in self.harness.context.groups:
            assert self.harness.group().state is State.EMPTY
            assert not self.harness.group().is_kept_without_offsets


TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
