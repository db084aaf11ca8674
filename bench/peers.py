"""The brokers under measurement, each a process of its own on free ports and an empty folder."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

import psutil

from bench.wire import Wire

ROOT = Path(__file__).resolve().parent.parent
JARS = Path(os.environ.get("PENSTOCK_KAFKA_JARS", ROOT / ".cache" / "kafka")) / "libs"

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
START_LIMIT_S = 60
STOP_LIMIT_S = 30


class Peer(ABC):
    """One broker: `start`, measure, `stop`; `wipe` when its data is no longer needed."""

    name: str

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix=f"bench-{self.name}-"))
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.output = self.folder / "output.txt"

    @abstractmethod
    def command(self) -> list[str]: ...

    def prepare(self) -> None:  # noqa: B027 - most peers need no preparation
        """The setup before the first start; not part of any measurement."""

    def start(self) -> float:
        """Start the process; return the seconds until the first metadata response."""
        self.prepare()
        began = self.launch()
        assert self.process is not None
        while time.perf_counter() - began < START_LIMIT_S:
            if self.process.poll() is not None:
                break
            try:
                with Wire(self.port) as wire:
                    wire.metadata()
                return time.perf_counter() - began
            except (ConnectionError, TimeoutError):
                time.sleep(0.005)
        raise RuntimeError(f"{self.name} did not start:\n{self.output.read_text()[-3000:]}")

    def launch(self) -> float:
        """Start the process without waiting for it; return the time."""
        command = self.command()
        with self.output.open("ab") as output:
            began = time.perf_counter()
            self.process = subprocess.Popen(
                command, stdout=output, stderr=output, cwd=self.folder, env=plain_environment()
            )
        return began

    def kill(self) -> None:
        process, self.process = self.process, None
        assert process is not None
        process.kill()
        process.wait()

    def stop(self) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def wipe(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def memory_mb(self) -> float:
        assert self.process is not None
        return float(psutil.Process(self.process.pid).memory_info().rss) / 1e6

    def cpu_s(self) -> float:
        assert self.process is not None
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)


class Penstock(Peer):
    name = "penstock"

    def __init__(self, folder: Path | None = None, *, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(folder)
        self.settings = dict(settings or {})

    def command(self) -> list[str]:
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.folder / "data"),
            "group.initial.rebalance.delay.ms": "0",
            **self.settings,
        }
        assignments = [word for pair in settings.items() for word in ("--set", "=".join(pair))]
        return [str(Path(sys.executable).parent / "penstock"), "serve", *assignments]


class ApacheKafka(Peer):
    """Kafka 4.3.1 as its own start script runs it: 1 GiB heap, G1, one node that is broker and controller."""

    name = "kafka"

    def __init__(self, folder: Path | None = None, *, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(folder)
        self.settings = dict(settings or {})

    def prepare(self) -> None:
        properties = self.folder / "server.properties"
        if properties.exists():
            return
        controller = free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.folder / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.segment.delete.delay.ms": "0",  # free the pages of deleted topics at once, as in Penstock
            **self.settings,
        }
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        java(
            ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)],
            capture=True,
        )

    def command(self) -> list[str]:
        return [
            "java", "-Xmx1g", "-Xms1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
            "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
            "-cp", f"{JARS}/*", "kafka.Kafka", str(self.folder / "server.properties"),
        ]  # fmt: skip


def java(arguments: list[str], *, capture: bool = False, timeout_s: float = 600) -> str:
    """Run a class, or a single source file, with Kafka's jars; its standard output."""
    done = subprocess.run(
        ["java", "-cp", f"{JARS}/*", *arguments],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if capture else None,
        timeout=timeout_s,
        text=True,
    )
    return done.stdout


def plain_environment() -> dict[str, str]:
    """The environment without PYTHONDONTWRITEBYTECODE, so that Python's bytecode cache is used."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
