"""The workload of one group: members join, freeze, crash and leave at any moment, while faults hit the node.

After the last fault all running members must soon be in one stable group, each partition must have one owner, and
everything that is reported about the group must agree with what the members know.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from simulator.clients.client import LostConnection
from simulator.groups.group import SimulatedGroup
from simulator.groups.inspector import Inspector
from simulator.groups.member import Member
from simulator.simulation import BrokenPromise, Simulation

MEMBERS_MAX = 4
STATIC_CHANCE = 0.3
FREEZE_S_MAX = 3.0
BUSY_S_MAX = 6.0  # longer than any timeout
PAUSE_S_MAX = 0.7  # between two actions
SESSION_FACTOR_MAX = 2  # a group's session timeout may be set to this multiple of what its members rely on
REGEX_REFRESH_S = 10.0  # how often a group resolves regular expressions again
LOOK_S = 0.2

MakeMember = Callable[[str, str | None], Member]
"""Makes a member from a name and an instance id."""


class GroupWorkload:
    def __init__(self, simulation: Simulation, group: SimulatedGroup, make_member: MakeMember) -> None:
        self.group = group
        self._simulation = simulation
        self._random = simulation.generator(f"workload/{group.group_id}")
        self._make_member = make_member
        self._inspector = Inspector(simulation, f"{group.group_id}-inspector")
        self._members: dict[Member, asyncio.Task[None]] = {}
        self._ended: list[asyncio.Task[None]] = []
        """Members that left or crashed. Their errors are raised all the same."""
        self._names = 0
        self._instances = [f"{group.group_id}-instance-{number}" for number in range(2)]

    @property
    def settles_within_s(self) -> float:
        """How long the group may wait for crashed members: in a rebalance, and then as leaders that do not assign."""
        group = self.group
        waiting_s = 2 * (SESSION_FACTOR_MAX * group.session_s + group.rebalance_s) + FREEZE_S_MAX
        if any(member.has_pattern for member in self._members):
            waiting_s += REGEX_REFRESH_S
        return waiting_s + 4 * self._simulation.settle_s

    async def run(self) -> None:
        try:
            for _ in range(self._random.randint(1, MEMBERS_MAX)):
                self._add()
            actions = [self._add] * 6 + [self._crash_member] * 2 + [self._ask_to_leave] + [self._freeze] * 2
            actions += [self._make_busy] * 2 + [
                self._disconnect
            ] * 2  # more joins than leaves: large groups meet more faults
            if self.group.settings:
                actions.append(self._change_setting)
            while not self.group.conditions.is_over():
                await self._wait(self._random.uniform(0.02, PAUSE_S_MAX))
                self._random.choice(actions)()
            if not self._members:
                self._add()
            for member in self._members:
                member.busy_until = 0.0
            await self._settle()
            if len(self._members) > 1:  # a member that is missing in a stable group
                self._crash_member()
                await self._settle()
        finally:
            for task in [*self._members.values(), *self._ended]:
                task.cancel()
            await asyncio.gather(*self._members.values(), *self._ended, return_exceptions=True)

    async def _settle(self) -> None:
        began = self._simulation.loop.time()
        while True:
            fault: str | None = "no connection"
            with contextlib.suppress(LostConnection):
                fault = await self._inspector.find_fault(self.group, list(self._members))
            if fault is None:
                return
            if self._simulation.loop.time() - began > self.settles_within_s:
                raise BrokenPromise(
                    f"group {self.group.group_id} has not settled in {self.settles_within_s:.1f} s: {fault}"
                )
            await self._wait(LOOK_S)

    async def _wait(self, seconds: float) -> None:
        """Let time pass, and raise errors of members."""
        await asyncio.sleep(seconds)
        for task in [*self._members.values(), *self._ended]:
            if task.done() and not task.cancelled():
                task.result()

    # Actions

    def _add(self) -> None:
        """Add a member; perhaps in place of a static member that crashed, or only seems to have crashed."""
        if len(self._members) >= MEMBERS_MAX:
            return
        rng = self._random
        instance_id = None
        if rng.random() < STATIC_CHANCE:
            instance_id = rng.choice(self._instances)
            for member in [each for each in self._members if each.instance_id == instance_id]:
                self._abandon(member)
            self.group.ownership.replace(instance_id)
        self._names += 1
        member = self._make_member(f"{self.group.group_id}-{self._names}", instance_id)
        self._note(f"{member.name} joins" + (f" as {instance_id}" if instance_id else ""))
        self._members[member] = self._start(member.run())

    def _start(self, work: Any) -> asyncio.Task[None]:
        return self._simulation.loop.create_task(work)

    def _abandon(self, member: Member) -> None:
        """Its task continues for a moment or ends, but is not relied on any more."""
        task = self._members.pop(member)
        self._ended.append(task)
        self._note(f"{member.name} crashes")
        task.cancel()
        if self._random.random() < 0.5:
            member.disconnect()

    def _crash_member(self) -> None:
        if member := self._pick():
            self._abandon(member)

    def _ask_to_leave(self) -> None:
        if member := self._pick():
            self._note(f"{member.name} is asked to leave")
            member.is_leaving = True
            self._ended.append(self._members.pop(member))

    def _freeze(self) -> None:
        if member := self._pick():
            seconds = self._random.uniform(0.1, FREEZE_S_MAX)
            self._note(f"{member.name} freezes for {seconds:.1f} s")
            member.frozen_until = self._simulation.loop.time() + seconds

    def _make_busy(self) -> None:
        if member := self._pick():
            seconds = self._random.uniform(0.1, BUSY_S_MAX)
            self._note(f"{member.name} is busy for {seconds:.1f} s")
            member.busy_until = self._simulation.loop.time() + seconds

    def _disconnect(self) -> None:
        if member := self._pick():
            self._note(f"{member.name} loses its connection")
            member.disconnect()

    def _change_setting(self) -> None:
        name = self._random.choice(list(self.group.settings))
        value = self._random.choice(self.group.settings[name])
        self._note(f"group {self.group.group_id} gets {name}={value}")
        self._ended.append(self._start(self._inspector.change_setting(self.group, name, value)))

    def _pick(self) -> Member | None:
        return self._random.choice(list(self._members)) if self._members else None

    def _note(self, event: str) -> None:
        self._simulation.trace.note(event)
