"""Streams groups under any sequence of events: no task is active twice, or owned twice by one process, and in the end
every task is assigned.

Members own tasks from the response that assigned them until they revoke them, are fenced or are removed. Responses may
be lost, coordinators may restart, topics may grow.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from harness.streams_groups import (
    GROUP,
    SESSION_MS,
    StreamsApp,
    StreamsHarness,
    nothing,
    subtopology,
    topic_info,
    topology,
)
from penstock.coordinator.group.streams.group import StreamsGroup
from penstock.coordinator.group.streams.member import StreamsMember
from penstock.coordinator.group.streams.tasks import Task
from penstock.protocol.errors import ErrorCode

NAMES = [f"member-{n}" for n in range(5)]
PROCESSES = {name: f"process-{n // 2}" for n, name in enumerate(NAMES)}
"""Two processes with two threads each, and one with a single thread."""

TOPOLOGY = topology(
    subtopology("0", sources=["in"]),
    subtopology("1", sources=["in"], changelogs=[topic_info("state")]),
)


class StreamsGroupMachine(RuleBasedStateMachine):
    @initialize(standby_count=st.integers(0, 2), delay_ms=st.sampled_from([0, 3000]))
    def begin(self, standby_count: int, delay_ms: int) -> None:
        self.harness = StreamsHarness(
            {
                "group.streams.num.standby.replicas": str(standby_count),
                "group.streams.initial.rebalance.delay.ms": str(delay_ms),
            }
        )
        self.partition_count = 2
        self.harness.create_topic("in", 2)
        self.harness.create_topic("state", 2)
        self.apps = {
            name: StreamsApp(self.harness, name, process_id=PROCESSES[name], topology=TOPOLOGY)
            for name in NAMES
        }

    @rule(name=st.sampled_from(NAMES))
    def beat(self, name: str) -> None:
        self.apps[name].beat()

    @rule(name=st.sampled_from(NAMES))
    def lose_the_answer(self, name: str) -> None:
        app = self.apps[name]
        epoch, owned = app.epoch, app.owned
        response = app.beat()
        if response.error_code is ErrorCode.NONE:
            app.epoch, app.owned = epoch, owned

    @rule(name=st.sampled_from(NAMES))
    def say_nothing_of_tasks(self, name: str) -> None:
        app = self.apps[name]
        if app.epoch > 0:
            response = self.harness.heartbeat(name, app.epoch)
            if response.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                app.epoch, app.owned = 0, nothing()

    @rule(name=st.sampled_from(NAMES), is_lazy=st.booleans())
    def be_lazy_or_not(self, name: str, is_lazy: bool) -> None:
        self.apps[name].is_lazy = is_lazy

    @rule(name=st.sampled_from(NAMES))
    def leave(self, name: str) -> None:
        app = self.apps[name]
        if name in self._members():
            app.leave()
        app.epoch, app.owned = 0, nothing()

    @rule(name=st.sampled_from(NAMES))
    def crash_and_join_again(self, name: str) -> None:
        """A new process, without the tasks of the old one."""
        app = self.apps[name]
        app.epoch, app.owned = 0, nothing()

    @rule(duration_ms=st.sampled_from([100, 3_000, 20_000, SESSION_MS, 70_000]))
    def wait(self, duration_ms: int) -> None:
        self.harness.advance(duration_ms)

    @precondition(lambda self: self.partition_count < 6)
    @rule()
    def grow(self) -> None:
        self.partition_count += 1
        self.harness.grow_topic("in", self.partition_count)
        self.harness.grow_topic("state", self.partition_count)

    @rule()
    def restart(self) -> None:
        self.harness = self.harness.restarted()
        for app in self.apps.values():
            app.harness = self.harness

    @invariant()
    def no_task_is_active_twice(self) -> None:
        if not self._members():
            return
        # A removed member may not know it yet; it cannot commit, so it does not count.
        active = Counter(task for name in self._members() for task in self.apps[name].owned["active"])
        assert set(active.values()) <= {1}

    @invariant()
    def the_coordinator_gives_nothing_twice(self) -> None:
        members = self._members().values()
        active = Counter(
            task for member in members for task in (*member.assigned.active, *member.revoking.active)
        )
        assert set(active.values()) <= {1}
        held = Counter(
            (member.process_id, task)
            for member in members
            for kind in (member.assigned, member.revoking)
            for task in (*kind.active, *kind.copies())
        )
        assert set(held.values()) <= {1}

    @invariant()
    def members_hold_only_what_the_coordinator_knows_of(self) -> None:
        for name, member in self._members().items():
            app = self.apps[name]
            if app.epoch != 0:
                known = {*member.assigned.active, *member.revoking.active}
                assert app.owned["active"] <= known

    def teardown(self) -> None:
        """In the end all members behave, and every task is assigned."""
        if not hasattr(self, "harness"):
            return
        for app in self.apps.values():
            app.is_lazy = False
        for _ in range(12):
            for app in self.apps.values():
                app.beat()
            self.no_task_is_active_twice()
            self.the_coordinator_gives_nothing_twice()
            self.harness.advance(3_000)
        active = sorted(task for app in self.apps.values() for task in app.active)
        assert active == sorted(Task(part, n) for part in "01" for n in range(self.partition_count))
        assert self.harness.group.state_name() == "Stable"

    def _members(self) -> dict[str, StreamsMember]:
        group = self.harness.context.groups.get(GROUP)
        return dict(group.members) if isinstance(group, StreamsGroup) else {}


StreamsGroupMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestNeverTwice = StreamsGroupMachine.TestCase
