"""The main job, `penstock demo`: input and output agree, and the program ends by itself."""

from __future__ import annotations

import re
import subprocess

import psutil

from harness.brokers import free_port, penstock_command, penstock_environment

END_SECONDS = 280.0


def test_every_order_that_went_in_comes_out_exactly_once() -> None:
    process = subprocess.Popen(
        [*penstock_command(), "demo", "--seconds", "5", "--port", str(free_port())],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=penstock_environment(),
    )
    try:
        output, _ = process.communicate(timeout=END_SECONDS)
    finally:
        if process.poll() is None:
            for each in [*psutil.Process(process.pid).children(recursive=True), process]:
                each.kill()
            process.communicate()

    assert process.returncode == 0, output
    counts = re.findall(r"^orders (?:generated|read|counted) +([\d,]+)", output, re.MULTILINE)
    assert len(counts) == 3, output
    assert len(set(counts)) == 1, output
    assert int(counts[0].replace(",", "")) > 0
    assert "every order exactly once" in output
