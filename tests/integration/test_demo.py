"""`penstock demo`, which is what `make run` runs: as a newcomer sees it, and as an impatient one ends it.

What it shows with Spark is in `tests/spark/operation`.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.brokers import free_port, penstock_command, penstock_environment
from harness.waiting import wait_until

END_SECONDS = 60.0

Demo = subprocess.Popen[str]

pytestmark = pytest.mark.penstock_only("its own command")


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def demo(port: int) -> Iterator[Demo]:
    process = subprocess.Popen(
        [*penstock_command(), "demo", "--broker-alone", "--seconds", "2", "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=penstock_environment(),
    )
    yield process
    for each in [process, *psutil.Process(process.pid).children()] if process.poll() is None else []:
        each.kill()
    process.communicate()


def test_it_produces_and_consumes_and_ends_by_itself(demo: Demo) -> None:
    output, _ = demo.communicate(timeout=END_SECONDS)

    assert demo.returncode == 0
    assert "every record once and in order" in output


def test_the_ready_line_is_one_line_that_names_the_address_however_narrow_the_screen(
    demo: Demo, port: int
) -> None:
    output, _ = demo.communicate(timeout=END_SECONDS)

    ready = [line for line in output.splitlines() if line.startswith("penstock ready")]
    assert len(ready) == 1
    assert f"PLAINTEXT://127.0.0.1:{port} " in ready[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_who_ends_it_while_its_broker_starts_leaves_no_broker_behind(
    demo: Demo, number: signal.Signals
) -> None:
    wait_until(lambda: bool(psutil.Process(demo.pid).children()), "its broker is being started")
    (broker,) = psutil.Process(demo.pid).children()

    demo.send_signal(number)
    demo.communicate(timeout=END_SECONDS)

    assert not broker.is_running()


def test_without_java_it_shows_the_broker_and_says_what_is_missing(port: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [*penstock_command(), "demo", "--seconds", "1", "--port", str(port)],
        capture_output=True,
        text=True,
        timeout=END_SECONDS,
        env={**penstock_environment(), "JAVA_HOME": str(tmp_path)},
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "where no Java lies" in done.stdout
    assert "every record once and in order" in done.stdout
