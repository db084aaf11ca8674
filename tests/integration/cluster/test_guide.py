"""The guide "Running a cluster" shows what really happens on three nodes."""

from __future__ import annotations

import re
import subprocess

import pytest

from harness.brokers import penstock_command, penstock_environment
from integration.cli.test_guides import pattern_of, steps_of
from penstock.testing import Cluster

pytestmark = pytest.mark.penstock_only("tests Penstock's guides")

WAIT_SECONDS = 60.0


def test_the_guide_shows_what_happens() -> None:
    steps = steps_of("running-a-cluster.md")
    assert len(steps) > 3

    with Cluster(nodes=3) as cluster:
        for step in steps:
            command = step.line.replace("penstock ", f"{' '.join(penstock_command())} ", 1)
            done = subprocess.run(
                ["bash", "-c", command],
                env={**penstock_environment(), "PENSTOCK_BOOTSTRAP_SERVERS": cluster.bootstrap_servers},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=WAIT_SECONDS,
            )
            assert done.returncode == step.status, f"{step.line}\n{done.stdout}"
            assert re.fullmatch(pattern_of(step.shown), done.stdout.rstrip("\n")), (
                f"{step.line}\n{done.stdout}\n-- but shown is --\n" + "\n".join(step.shown)
            )
