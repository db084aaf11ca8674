"""The process behind `penstock.testing.Broker` and `Cluster`: the node of `penstock serve`, with injected faults.

Each line on standard input is a command (JSON) for the fault script or the network, answered by one line on standard
output. Arguments are settings (`key=value`), and `cut:15000,15001` for ports that are cut from the beginning. When
standard input ends, the test process has exited, whatever the reason, and the broker stops. So no broker is ever
left behind.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

from penstock.cli.failures import Misuse
from penstock.cli.logs import set_up_logging
from penstock.cli.serve import read_settings
from penstock.node import process
from penstock.runtime.network import Network
from penstock.testing.partitions import PartitionedNetwork
from penstock.testing.script import FaultScript, ScriptedServer

STDIN = 0


CUT = "cut:"


def main(arguments: Sequence[str]) -> int:
    """Serve with these settings until stopped; the exit status."""
    cut = [int(port) for each in arguments if each.startswith(CUT) for port in each[len(CUT) :].split(",")]
    commands = _Commands(cut)
    set_up_logging("info")
    threading.Thread(target=commands.read, name="commands", daemon=True).start()
    try:
        return process.run(
            read_settings(None, [each for each in arguments if not each.startswith(CUT)]),
            on_ready=_report_ready,
            wrap_server=lambda server: ScriptedServer(server, commands.script),
            wrap_network=commands.wrap_network,
        )
    except (Misuse, process.CannotStart, OSError) as problem:
        print(f"penstock: {problem}", file=sys.stderr)
        return 1


def _report_ready(ready: process.Ready) -> None:
    print(f"penstock ready: {', '.join(ready.addresses)}", flush=True)


class _Commands:
    """Reads commands in a thread of its own."""

    def __init__(self, cut: Sequence[int]) -> None:
        self.script = FaultScript()
        self._cut = cut
        self._network: concurrent.futures.Future[tuple[PartitionedNetwork, asyncio.AbstractEventLoop]] = (
            concurrent.futures.Future()
        )

    def wrap_network(self, network: Network) -> Network:
        made = PartitionedNetwork(network)
        made.cut(self._cut)
        self._network.set_result((made, asyncio.get_running_loop()))
        return made

    def read(self) -> None:
        # Not through sys.stdin: a thread blocked in it holds its lock when the interpreter exits.
        pending = b""
        while data := os.read(STDIN, 1 << 16):
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                print(json.dumps(self._execute(json.loads(line))), flush=True)
        os.kill(os.getpid(), signal.SIGTERM)

    def _execute(self, command: dict[str, Any]) -> dict[str, Any]:
        if command.get("do") != "cut":
            return self.script.execute(command)
        network, loop = self._network.result()  # a command may come before the node has one
        asyncio.run_coroutine_threadsafe(_cut(network, command["ports"]), loop).result()
        return {}


async def _cut(network: PartitionedNetwork, ports: list[int]) -> None:
    network.cut(ports)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
