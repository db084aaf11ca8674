"""A real broker for a test or a notebook: its own process, a fresh folder and a free port.

    with Broker() as broker:
        producer = AnyKafkaClient(broker.bootstrap_servers)

It runs the same node as `penstock serve`. It can be stopped, killed, paused, and restarted on the same data and
port, and `broker.faults` injects faults. It never outlives the process that made it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from penstock.testing.clients import Clients
from penstock.testing.faults import Faults
from penstock.testing.node_process import BrokerFailed, NodeProcess, end_process, free_port, text_of

__all__ = ["Broker", "BrokerFailed"]

PORT_TRIES = 20

# Small and without delays: a test's broker holds little data for a short time.
TEST_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


class Broker(Clients):
    def __init__(
        self,
        *,
        settings: Mapping[str, object] | None = None,
        folder: str | os.PathLike[str] | None = None,
        port: int | None = None,
    ) -> None:
        """Start a broker. `settings` are broker settings (`{"num.partitions": 3}`). Without a `folder`, its data is
        deleted with it."""
        super().__init__()
        self.settings = {
            **TEST_SETTINGS,
            **{name: text_of(value) for name, value in (settings or {}).items()},
        }
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-") if folder is None else folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log_file = self.folder / "broker.log"
        self.port = port or free_port()
        processes: list[subprocess.Popen[str]] = []
        self._node = NodeProcess("the broker", self.log_file, processes)
        self.faults = Faults(self._node.command)
        own_folder = self.folder if folder is None else None
        self._finalizer = weakref.finalize(self, clean_up, processes, own_folder)
        self._start_on_free_port(is_port_given=port is not None)

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect: `127.0.0.1:port`."""
        return f"127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        return self._node.is_running

    def start(self) -> None:
        """Restart after `stop` or `kill`, on the same data and port."""
        if not self._finalizer.alive and not self.is_running:
            raise BrokerFailed("the broker was closed; create another one")
        self._node.launch(
            {
                "listeners": f"PLAINTEXT://{self.bootstrap_servers}",
                "log.dirs": str(self.folder / "data"),
                **self.settings,
            }
        )
        self._node.wait_until_ready()

    def stop(self) -> None:
        """Stop cleanly, as SIGTERM does. Does nothing if it is not running."""
        self._node.end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it as `kill -9` does: it cannot write anything more."""
        self._node.end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze it like a hanging machine: connections stay open, but nothing is answered until `resume`."""
        self._node.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._node.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Stop the broker, close the clients that it made, and delete its data unless a folder was given."""
        self.close_clients()
        self.stop()
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if not self._finalizer.alive:
            return f"<Broker {self.bootstrap_servers}, closed>"
        state = "running" if self.is_running else "stopped"
        return f"<Broker {self.bootstrap_servers}, {state}, data in {self.folder}>"

    def log(self, *, last_bytes: int = 8192) -> str:
        """The end of the broker's log."""
        return self._node.log(last_bytes=last_bytes)

    def _start_on_free_port(self, *, is_port_given: bool) -> None:
        for tries_left in reversed(range(PORT_TRIES)):
            try:
                self.start()
                return
            except BrokerFailed:
                # Another process may have taken the port since it was found to be free.
                if is_port_given or not tries_left or "in use" not in self.log():
                    self._finalizer()
                    raise
                self.port = free_port()


def clean_up(processes: list[subprocess.Popen[str]], folder: Path | None) -> None:
    """Run by `weakref.finalize` when the broker is closed or garbage collected, or when the interpreter exits."""
    for process in processes:
        process.send_signal(signal.SIGTERM)  # together: the nodes of a cluster wait for one another
    for process in processes:
        end_process(process, signal.SIGTERM)
    processes.clear()
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
