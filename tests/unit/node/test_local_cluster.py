"""The processes of a cluster on one host: ready, restarted, stopped. The nodes are small scripts here."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from penstock.node import local_cluster
from penstock.node.local_cluster import LocalCluster, NodeFailed
from penstock.node.local_layout import LocalLayout, LocalNode, plan
from penstock.runtime.backoff import Backoff

# Prints a line to each stream, is ready, and stops with SIGTERM or at the end of its standard input.
NODE = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
print("a warning", file=sys.stderr, flush=True)
print("penstock ready: node", flush=True)
sys.stdin.read()
"""
DEAF = NODE.replace("lambda *_: os._exit(0)", "lambda *_: print('not now', flush=True)")
BROKEN = "import sys; print('bad setting', file=sys.stderr); sys.exit(2)"


class Running:
    def __init__(self, folder: Path, programs: list[str], output: io.BytesIO | None = None) -> None:
        self.output = io.BytesIO() if output is None else output
        self.ready: asyncio.Future[LocalLayout] = asyncio.get_running_loop().create_future()
        layout = plan(folder, count=len(programs), port=9092)
        self.cluster = LocalCluster(layout, self._command, output=self.output)
        self._programs = programs
        self.ended = asyncio.ensure_future(self.cluster.run(self.ready.set_result))

    def _command(self, node: LocalNode) -> list[str]:
        return [sys.executable, "-c", self._programs[node.node_id - 1]]

    def lines(self) -> list[str]:
        return self.output.getvalue().decode().splitlines()

    async def until(self, is_so: Callable[[], object]) -> None:
        async with asyncio.timeout(30):
            while not is_so():
                await asyncio.sleep(0.01)

    async def stop(self) -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        return await self.ended


def run(
    folder: Path,
    programs: list[str],
    test: Callable[[Running], Coroutine[Any, Any, None]],
    *,
    output: io.BytesIO | None = None,
) -> None:
    """On asyncio's own loop: signal handlers need the main thread."""

    async def main() -> None:
        running = Running(folder, programs, output)
        try:
            await test(running)
        finally:
            if not running.ended.done():
                await running.stop()

    asyncio.run(main())


def test_it_is_ready_when_all_nodes_are_and_stops_them_all(tmp_path: Path) -> None:
    async def test(running: Running) -> None:
        layout = await running.ready
        assert len(layout.nodes) == 3
        processes = [running.cluster.process_id(node_id) for node_id in (1, 2, 3)]
        assert await running.stop() == 0
        for process_id in processes:
            assert process_id is not None
            with pytest.raises(ProcessLookupError):
                os.kill(process_id, 0)

    run(tmp_path, [NODE] * 3, test)


def test_every_line_of_a_node_begins_with_its_name(tmp_path: Path) -> None:
    async def test(running: Running) -> None:
        await running.ready
        await running.until(lambda: len(running.lines()) == 4)

    async def check(running: Running) -> None:
        await test(running)
        assert sorted(running.lines()) == [
            "node 1 | a warning",
            "node 1 | penstock ready: node",
            "node 2 | a warning",
            "node 2 | penstock ready: node",
        ]

    run(tmp_path, [NODE] * 2, check)


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "no space"), BrokenPipeError(), ValueError("closed")]
)
def test_nodes_continue_if_their_output_cannot_be_written(tmp_path: Path, error: Exception) -> None:
    """For example because it goes to a file on a full disk."""

    class Full(io.BytesIO):
        def write(self, data: object) -> int:
            raise error

    async def test(running: Running) -> None:
        await running.until(lambda: running.ready.done() or running.ended.done())
        assert not running.ended.done()
        assert await running.stop() == 0

    run(tmp_path, [NODE] * 2, test, output=Full())


def test_a_node_that_dies_is_restarted_after_a_growing_backoff(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(local_cluster, "RESTART_BACKOFF", Backoff(1, 4, jitter=0))

    async def test(running: Running) -> None:
        await running.ready
        for _ in range(3):
            before = running.cluster.process_id(2)
            assert before is not None
            os.kill(before, signal.SIGKILL)
            await running.until(lambda before=before: running.cluster.process_id(2) not in (None, before))

    run(tmp_path, [NODE] * 2, test)
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        f"node 2 ended (killed by SIGKILL); restarting it in {delay_ms} ms" for delay_ms in (1, 2, 4)
    ]


def test_a_node_that_cannot_start_fails_the_whole_start(tmp_path: Path) -> None:
    async def test(running: Running) -> None:
        with pytest.raises(NodeFailed, match=r"node 2 did not start \(exit status 2\)"):
            await running.ended
        assert "node 2 | bad setting" in running.lines()
        assert not running.ready.done()

    run(tmp_path, [NODE, BROKEN, NODE], test)


def test_a_node_that_does_not_stop_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_cluster, "STOP_S", 0.2)
    monkeypatch.setattr(local_cluster, "LAST_STOP_S", 0.1)

    async def test(running: Running) -> None:
        await running.ready
        deaf = running.cluster.process_id(1)
        assert deaf is not None
        assert await running.stop() == 0
        with pytest.raises(ProcessLookupError):
            os.kill(deaf, 0)

    run(tmp_path, [DEAF, NODE], test)


def test_a_second_signal_kills_the_nodes(tmp_path: Path) -> None:
    async def test(running: Running) -> None:
        await running.ready
        os.kill(os.getpid(), signal.SIGTERM)
        await running.until(lambda: "node 1 | not now" in running.lines())
        assert await running.stop() == 0

    run(tmp_path, [DEAF] * 3, test)
