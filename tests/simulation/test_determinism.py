"""A seed always gives the same history: otherwise failures could not be repeated."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

import penstock
import simulator
from simulator.clusters.pipelines import run_pipeline_seed
from simulator.clusters.scenario import run_cluster_seed
from simulator.scenario import run_seed
from simulator.simulation import Simulation

SEED = 1  # with stops and kills while many connections are open
PROGRAM = """
import sys
from simulator.scenario import run_seed
themes = {theme: theme in sys.argv[2:] for theme in ("has_groups", "has_transactions")}
print(run_seed(int(sys.argv[1]), **themes).fingerprint)
"""


def fingerprint_in_another_process(
    hash_seed: int, themes: Sequence[str] = (), *, program: str = PROGRAM
) -> str:
    """There memory addresses and the order of sets differ."""
    environment = {
        **os.environ,
        "PYTHONHASHSEED": str(hash_seed),
        "PYTHONPATH": os.pathsep.join(
            str(Path(module.__file__).parents[1]) for module in (penstock, simulator)
        ),
    }
    done = subprocess.run(
        [sys.executable, "-c", program, str(SEED), *themes],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("themes", [(), ("has_groups",), ("has_transactions",)])
def test_two_runs_of_a_seed_are_identical_to_the_last_byte(themes: Sequence[str]) -> None:
    arguments = dict.fromkeys(("has_groups", "has_transactions"), False) | dict.fromkeys(themes, True)
    here = run_seed(SEED, **arguments).fingerprint

    assert run_seed(SEED, **arguments).fingerprint == here
    elsewhere = [fingerprint_in_another_process(hash_seed, themes) for hash_seed in (1, 3)]
    assert elsewhere == [here, here]


def test_a_log_line_of_another_thread_is_not_part_of_the_history() -> None:
    """A client that an earlier test left behind in the same process logged a warning, and the fingerprint changed."""

    async def scenario(simulation: Simulation) -> int:
        before = simulation.trace.count
        thread = threading.Thread(
            target=logging.getLogger("penstock.client").warning, args=("no broker answers",)
        )
        thread.start()
        thread.join()
        return simulation.trace.count - before

    assert Simulation(SEED).run(scenario) == 0


CLUSTER_PROGRAM = """
import sys
from simulator.clusters.scenario import run_cluster_seed
print(run_cluster_seed(int(sys.argv[1])).fingerprint)
"""


def test_two_runs_of_a_cluster_are_identical_to_the_last_byte() -> None:
    here = run_cluster_seed(SEED).fingerprint

    assert run_cluster_seed(SEED).fingerprint == here
    assert fingerprint_in_another_process(3, program=CLUSTER_PROGRAM) == here


PIPELINE_PROGRAM = """
import sys
from simulator.clusters.pipelines import run_pipeline_seed
print(run_pipeline_seed(int(sys.argv[1])))
"""


def test_two_runs_of_a_pipeline_are_identical_to_the_last_byte() -> None:
    """Penstock's own clients drew the jitter of their retries from a generator without a seed."""
    here = run_pipeline_seed(SEED)

    assert run_pipeline_seed(SEED) == here
    assert fingerprint_in_another_process(3, program=PIPELINE_PROGRAM) == here


def test_another_seed_gives_another_history() -> None:
    assert run_seed(SEED).fingerprint != run_seed(SEED + 1).fingerprint
