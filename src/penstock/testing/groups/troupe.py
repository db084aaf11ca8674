"""One group on the stage: its members come, stop, vanish and leave at any moment, while the node has its own troubles.

When nothing goes wrong any more, all that live have to be in one stable group soon, every partition owned by
one of them, and everything that is told about the group has to agree with what they know.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from penstock.testing.client import LostConnection
from penstock.testing.groups.inspector import Inspector
from penstock.testing.groups.member import Member
from penstock.testing.groups.party import Party
from penstock.testing.simulation import BrokenPromise, Simulation

MEMBERS_MAX = 4
STATIC_CHANCE = 0.3
FREEZE_S_MAX = 3.0
BUSY_S_MAX = 6.0  # longer than anybody waits
PAUSE_S_MAX = 0.7  # between two things that befall members
SESSION_FACTOR_MAX = 2  # a group's session timeout may be set to so much more than its members count on
REGEX_REFRESH_S = 10.0  # so long a group waits until it looks again which topics there are
LOOK_S = 0.2

MakeMember = Callable[[str, str | None], Member]
"""From a name and an instance id."""


class Troupe:
    def __init__(self, simulation: Simulation, party: Party, make_member: MakeMember) -> None:
        self.party = party
        self._simulation = simulation
        self._random = simulation.generator(f"troupe/{party.group_id}")
        self._make_member = make_member
        self._inspector = Inspector(simulation, f"{party.group_id}-inspector")
        self._members: dict[Member, asyncio.Task[None]] = {}
        self._ended: list[asyncio.Task[None]] = []
        """Those that nobody counts on, which may complain all the same."""
        self._names = 0
        self._instances = [f"{party.group_id}-instance-{number}" for number in range(2)]

    @property
    def settles_within_s(self) -> float:
        """How long those who vanished may be waited for: in a rebalance, and then as leaders that do not assign."""
        party = self.party
        waiting_s = 2 * (SESSION_FACTOR_MAX * party.session_s + party.rebalance_s) + FREEZE_S_MAX
        if any(member.has_pattern for member in self._members):
            waiting_s += REGEX_REFRESH_S
        return waiting_s + 4 * self._simulation.settle_s

    async def run(self) -> None:
        try:
            for _ in range(self._random.randint(1, MEMBERS_MAX)):
                self._add()
            actions = [self._add] * 6 + [self._vanish] * 2 + [self._dismiss] + [self._freeze] * 2
            actions += [self._occupy] * 2 + [
                self._hang_up
            ] * 2  # more come than go: a crowd meets more troubles
            if self.party.settings:
                actions.append(self._change_setting)
            while not self.party.weather.is_over():
                await self._wait(self._random.uniform(0.02, PAUSE_S_MAX))
                self._random.choice(actions)()
            if not self._members:
                self._add()
            for member in self._members:
                member.busy_until = 0.0
            await self._settle()
            if len(self._members) > 1:  # somebody who is missed in a group at rest
                self._vanish()
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
                fault = await self._inspector.find_fault(self.party, list(self._members))
            if fault is None:
                return
            if self._simulation.loop.time() - began > self.settles_within_s:
                raise BrokenPromise(
                    f"group {self.party.group_id} has not settled in {self.settles_within_s:.1f} s: {fault}"
                )
            await self._wait(LOOK_S)

    async def _wait(self, seconds: float) -> None:
        """Let time pass; whatever a member complains about is raised here."""
        await asyncio.sleep(seconds)
        for task in [*self._members.values(), *self._ended]:
            if task.done() and not task.cancelled():
                task.result()

    # What befalls members

    def _add(self) -> None:
        """Somebody comes; maybe in place of a static member that is gone, or that only seems to be."""
        if len(self._members) >= MEMBERS_MAX:
            return
        rng = self._random
        instance_id = None
        if rng.random() < STATIC_CHANCE:
            instance_id = rng.choice(self._instances)
            for member in [each for each in self._members if each.instance_id == instance_id]:
                self._leave_behind(member)
            self.party.claims.replace(instance_id)
        self._names += 1
        member = self._make_member(f"{self.party.group_id}-{self._names}", instance_id)
        self._note(f"{member.name} comes" + (f" as {instance_id}" if instance_id else ""))
        self._members[member] = self._start(member.run())

    def _start(self, work: Any) -> asyncio.Task[None]:
        return self._simulation.loop.create_task(work)

    def _leave_behind(self, member: Member) -> None:
        """Its task goes on for a moment or ends; nobody counts on it any more."""
        task = self._members.pop(member)
        self._ended.append(task)
        self._note(f"{member.name} vanishes")
        task.cancel()
        if self._random.random() < 0.5:
            member.hang_up()

    def _vanish(self) -> None:
        if member := self._one():
            self._leave_behind(member)

    def _dismiss(self) -> None:
        if member := self._one():
            self._note(f"{member.name} is to leave")
            member.is_leaving = True
            self._ended.append(self._members.pop(member))

    def _freeze(self) -> None:
        if member := self._one():
            seconds = self._random.uniform(0.1, FREEZE_S_MAX)
            self._note(f"{member.name} stops for {seconds:.1f} s")
            member.frozen_until = self._simulation.loop.time() + seconds

    def _occupy(self) -> None:
        if member := self._one():
            seconds = self._random.uniform(0.1, BUSY_S_MAX)
            self._note(f"{member.name} is busy for {seconds:.1f} s")
            member.busy_until = self._simulation.loop.time() + seconds

    def _hang_up(self) -> None:
        if member := self._one():
            self._note(f"{member.name} loses its connection")
            member.hang_up()

    def _change_setting(self) -> None:
        name = self._random.choice(list(self.party.settings))
        value = self._random.choice(self.party.settings[name])
        self._note(f"group {self.party.group_id} shall have {name}={value}")
        self._ended.append(self._start(self._inspector.change_setting(self.party, name, value)))

    def _one(self) -> Member | None:
        return self._random.choice(list(self._members)) if self._members else None

    def _note(self, event: str) -> None:
        self._simulation.trace.note(event)
