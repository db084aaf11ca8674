"""A whole node in one thread, from one seed: virtual time, an in-memory network, a disk that loses unsynced data.

    simulation = Simulation(seed=7, settings={"log.dirs": "/a,/b"})
    simulation.run(scenario)        # an async function of the simulation

One node is simulated by `SimulatedNode`; see `cluster` for several.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock.client.connection import ClientConnection
from penstock.node.node import Node
from simulator.disk import SimulatedDisk
from simulator.loop import VirtualClock
from simulator.network import CLIENT_HOST
from simulator.node import Crashed, End, SimulatedNode
from simulator.world import BrokenPromise, World

__all__ = ["HOST", "PORT", "BrokenPromise", "Crashed", "End", "Simulation"]

HOST, PORT = CLIENT_HOST, 9092  # clients and the only node share a host


class Simulation(World):
    """One node, whose methods are those of the simulation."""

    def __init__(self, seed: int, *, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(seed)
        self.properties = {"listeners": f"PLAINTEXT://{HOST}:{PORT}", "log.dirs": "/data", **(settings or {})}
        self.server = SimulatedNode(
            "",
            host=HOST,
            properties=self.properties,
            loop=self.loop,
            network=self.network,
            trace=self.trace,
            generator=self.generator,
            failures=self.failures,
        )
        self.start = self.server.start
        self.stop = self.server.stop
        self.restart = self.server.restart
        self.crash = self.server.crash
        self.crash_after = self.server.crash_after
        self.wait_until_down = self.server.wait_until_down

    @property
    def all_nodes(self) -> Sequence[SimulatedNode]:
        return (self.server,)

    @property
    def node(self) -> Node:
        return self.server.node

    @property
    def clock(self) -> VirtualClock:
        return self.server.clock

    @property
    def disk(self) -> SimulatedDisk:
        return self.server.disk

    @property
    def is_up(self) -> bool:
        return self.server.is_up

    @property
    def lives(self) -> int:
        return self.server.lives

    @property
    def log_lines(self) -> list[str]:
        return self.server.log_lines

    @property
    def stall_s_max(self) -> float:
        return self.server.stall_s_max

    @property
    def settle_s(self) -> float:
        """How long the node may need to finish work in progress, even on a busy disk."""
        return 0.5 + 2 * self.stall_s_max

    @property
    def worker_delay_s_max(self) -> float:
        return self.server.worker_delay_s_max

    @worker_delay_s_max.setter
    def worker_delay_s_max(self, seconds: float) -> None:
        self.server.worker_delay_s_max = seconds

    @property
    def on_end(self) -> Callable[[End], None] | None:
        return self.server.on_end

    @on_end.setter
    def on_end(self, listener: Callable[[End], None] | None) -> None:
        self.server.on_end = listener

    async def connect(self, client_id: str = "simulated") -> ClientConnection:
        return await ClientConnection.open(self.network, HOST, PORT, client_id=client_id)
