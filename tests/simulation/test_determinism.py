"""One seed, one history: otherwise a failure could not be looked at a second time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import penstock
from penstock.testing.scenario import run_seed

SEED = 1  # it has stops and kills in it, with many connections open
PROGRAM = "import sys; from penstock.testing.scenario import run_seed; print(run_seed(int(sys.argv[1])).fingerprint)"


def fingerprint_in_another_process(hash_seed: int) -> str:
    """Addresses in memory and the order of sets are others there."""
    environment = {
        **os.environ,
        "PYTHONHASHSEED": str(hash_seed),
        "PYTHONPATH": str(Path(penstock.__file__).parents[1]),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(SEED)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_two_runs_of_a_seed_are_the_same_to_the_last_byte() -> None:
    here = run_seed(SEED).fingerprint

    assert run_seed(SEED).fingerprint == here
    assert [fingerprint_in_another_process(hash_seed) for hash_seed in (1, 3)] == [here, here]


def test_another_seed_is_another_history() -> None:
    assert run_seed(SEED).fingerprint != run_seed(SEED + 1).fingerprint
