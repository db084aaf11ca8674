"""A trap for voters that forget their vote: two candidates of one epoch, and a voter that dies between them.

    run_vote_trap(17)

Faults at random times hardly ever hit this moment, so this scenario waits for each step. Two controllers that cannot
reach each other become candidates of the same epoch. The third votes for one of them, loses power before it learns who
won, restarts, and hears the other one. It must remember its vote.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from simulator.cluster import SimulatedCluster
from simulator.clusters.inside import quorum_role_of, quorum_state_of
from simulator.clusters.watch import Watch
from simulator.node import End

STEP_S = 0.001
DELAY_S_MIN, DELAY_S_MAX = 0.02, 0.04  # enough to cut a link before a message of the last step arrives
CHANGES_OF_ONE_SAVE = 6  # of the disk, for one save of the quorum's state
STEP_S_MAX = 40.0
AFTERMATH_S = 6.0
ELECTION_TIMEOUT = "controller.quorum.election.timeout.ms"
SETTINGS = {
    ELECTION_TIMEOUT: "6000",  # candidates wait for long
    "controller.quorum.request.timeout.ms": "600",
}


def run_vote_trap(seed: int, *, on_line: Callable[[str], None] | None = None) -> bool:
    """Whether the trap was set: elections are random, and in some seeds one candidate is too late."""
    cluster = SimulatedCluster(seed, roles=dict.fromkeys((1, 2, 3), "controller"), settings=SETTINGS)
    cluster.trace.on_line = on_line
    return cluster.run(lambda cluster: _Trap(cluster).run())


class _Trap:
    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._watch = Watch(cluster)
        self._voter_died = False
        for node in cluster.nodes.values():
            node.worker_delay_s_max = 0.002

    async def run(self) -> bool:
        cluster, voter = self._cluster, 3
        links = cluster.network.links
        links.default.delay_s_min, links.default.delay_s_max = DELAY_S_MIN, DELAY_S_MAX
        cluster.partition({1}, {2})
        for node in cluster.all_nodes:
            node.is_silent_without_power = False
        cluster.nodes[voter].properties[ELECTION_TIMEOUT] = "120000"  # it never becomes a candidate itself
        await cluster.start()
        first = await self._wait_for(self._find_candidate)
        if first is None:
            return False
        other = 3 - first
        cluster.cut(first, voter)  # its request for a vote does not arrive yet
        epoch = quorum_state_of(cluster.nodes[first])[0]

        def is_candidate_too() -> bool:
            return self._role(other) == "candidate" and quorum_state_of(cluster.nodes[other])[0] == epoch

        if not await self._wait_for(is_candidate_too):
            return False
        cluster.heal()
        cluster.partition({1}, {2})
        cluster.cut(other, voter)
        cluster.nodes[voter].on_end = self._note_death
        cluster.nodes[voter].crash_after(CHANGES_OF_ONE_SAVE, since="quorum-state")
        if not await self._wait_for(lambda: self._voter_died):
            return False
        cluster.heal()
        cluster.partition({first}, {other, voter})
        await cluster.start(voter)
        cluster.nodes[voter].crash_after(1 << 60)
        await self._wait_for(lambda: False, within_s=AFTERMATH_S)
        return True

    def _note_death(self, end: End) -> None:
        self._voter_died = True

    def _role(self, node_id: int) -> str:
        return quorum_role_of(self._cluster.nodes[node_id])

    def _find_candidate(self) -> int | None:
        return next((node_id for node_id in (1, 2) if self._role(node_id) == "candidate"), None)

    async def _wait_for(
        self, condition: Callable[[], int | bool | None], *, within_s: float = STEP_S_MAX
    ) -> int | None:
        """What the condition returns when it is true; None if it does not become true. Watches for two leaders."""
        until = self._cluster.loop.time() + within_s
        while self._cluster.loop.time() < until:
            if found := condition():
                return found
            self._watch.look()
            await asyncio.sleep(STEP_S)
        return None
