"""`penstock perf` and `penstock top` with a broker: tables, JSON, and the live screen in a terminal."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import time

import pytest

from harness.admin import create_topic
from harness.brokers import PenstockBroker, penstock_command, penstock_environment
from integration.cli.conftest import Commands

WAIT_SECONDS = 30.0

pytestmark = pytest.mark.penstock_only("tests Penstock's command line")


@pytest.fixture
def topic(node: PenstockBroker) -> str:
    return create_topic(node.bootstrap, "load", partitions=2)


FIGURES = {"bytes", "seconds", "mib_per_second", "latency_ms"}


def test_writing_and_reading_are_measured(commands: Commands, topic: str) -> None:
    wrote = commands.run(f"perf produce {topic} -n 2000 --size 10 --json").json()
    read = commands.run(f"perf consume {topic} --json").json()

    assert wrote.keys() == FIGURES | {"records", "records_per_second"}
    assert (wrote["records"], wrote["bytes"]) == (2000, 20_000)
    assert wrote["latency_ms"]["p50"] <= wrote["latency_ms"]["p99"] <= wrote["latency_ms"]["max"]
    assert (read["records"], read["bytes"]) == (2000, 20_000)


def test_results_are_a_table_for_people(commands: Commands, topic: str) -> None:
    shown = dict(
        re.split(r" {2,}", line)
        for line in commands.run(f"perf produce {topic} -n 100 -s 5").out.splitlines()
    )

    assert (shown["records"], shown["bytes"]) == ("100", "500 B")
    assert shown.keys() >= {"rate", "throughput", "latency p50", "latency p99.9", "latency max"}


def test_end_to_end_latency_is_measured(commands: Commands, topic: str) -> None:
    figures = commands.run(f"perf end-to-end {topic} -n 20 --json").json()

    assert figures["records"] == 20
    assert figures["latency_ms"]["mean"] > 0


def test_transactions_are_measured(commands: Commands, topic: str) -> None:
    figures = commands.run(
        f"perf transactions {topic} --count 5 --records 3 --transactional-id {topic} --json"
    ).json()

    assert figures.keys() == FIGURES | {"transactions", "transactions_per_second"}
    assert figures["transactions"] == 5
    assert len(commands.run(f"consume {topic} --json --committed").json_lines()) == 15


def test_a_group_reads_as_a_member(commands: Commands, topic: str) -> None:
    commands.run(f"perf produce {topic} -n 100")

    assert commands.run(f"perf consume {topic} -n 100 --group perf-{topic} --json").json()["records"] == 100


def test_a_pipe_shows_the_cluster_once(commands: Commands, topic: str) -> None:
    commands.run(f"produce {topic} a b c")
    commands.run(f"consume {topic} --group top-{topic} --limit 1")

    rows = commands.run("top --interval 0.1").rows()
    facts = commands.run("top --interval 0.1 --json").json()

    assert rows[0][:4] == ["broker", "address", "leads", "replicas"]
    assert [topic, "2", "0", "3"] == next(row for row in rows if row and row[0] == topic)[:4]
    assert any(row and row[0] == f"top-{topic}" for row in rows)
    assert {"brokers", "topics", "groups", "records_per_second"} <= facts.keys()
    (group,) = [group for group in facts["groups"] if group["group"] == f"top-{topic}"]
    assert group["lag"] == 2


def test_internal_topics_are_shown_on_request(commands: Commands, topic: str) -> None:
    commands.run(f"consume {topic} --group internal-{topic} --json")

    assert "__consumer_offsets" not in commands.run("top --once --interval 0.1").out
    assert "__consumer_offsets" in commands.run("top --once --interval 0.1 --internal").out


class LiveScreen:
    """A command in its own terminal: what it draws, and its keys."""

    def __init__(self, *arguments: str) -> None:
        self._main, end = pty.openpty()
        environment = {**penstock_environment(), "TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
        self.process = subprocess.Popen(
            [*penstock_command(), *arguments],
            stdin=end,
            stdout=end,
            stderr=end,
            env=environment,
            start_new_session=True,
        )
        os.close(end)
        self.drawn = ""

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while text not in self.drawn:
            assert time.monotonic() < deadline, self.drawn[-2000:]
            self._read()

    def press(self, key: str) -> None:
        os.write(self._main, key.encode())

    def wait_for_end(self) -> int:
        while self._read():
            pass
        status = self.process.wait(WAIT_SECONDS)
        os.close(self._main)
        return status

    def _read(self) -> bool:
        try:
            data = os.read(self._main, 65536)
        except OSError:  # the other side is closed
            return False
        self.drawn += data.decode("utf-8", "replace")
        return bool(data)


def test_the_live_screen_reacts_to_keys(commands: Commands, node: PenstockBroker, topic: str) -> None:
    screen = LiveScreen("top", "-b", node.bootstrap, "--interval", "0.2")

    screen.wait_for("under-replicated")
    screen.wait_for("sort (by rate)")
    screen.press("s")
    screen.wait_for("sort (by lag)")
    screen.press(" ")
    screen.wait_for("paused")
    screen.press("q")

    assert screen.wait_for_end() == 0
    assert "\x1b[?1049l" in screen.drawn, "the terminal is restored"
    assert "Traceback" not in screen.drawn


def test_ctrl_c_leaves_the_live_screen(node: PenstockBroker) -> None:
    screen = LiveScreen("top", "-b", node.bootstrap, "--interval", "0.2")
    screen.wait_for("under-replicated")

    os.killpg(screen.process.pid, signal.SIGINT)

    assert screen.wait_for_end() == 130
    assert "Traceback" not in screen.drawn


def test_long_work_shows_its_progress_on_a_terminal(node: PenstockBroker, topic: str) -> None:
    """A bar appears after a second, and is removed at the end."""
    screen = LiveScreen("perf", "produce", topic, "-b", node.bootstrap, "-n", "600", "--rate", "300")

    screen.wait_for(f"writing to {topic}")
    assert screen.wait_for_end() == 0
    assert "latency p99" in screen.drawn
