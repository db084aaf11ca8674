"""One seed, one history: otherwise a failure could not be looked at a second time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.testing.scenario import run_seed

SEED = 1  # it has stops and kills in it, with many connections open
PROGRAM = """
import sys
from penstock.testing.scenario import run_seed
print(run_seed(int(sys.argv[1]), has_groups=sys.argv[2] == "True").fingerprint)
"""


def fingerprint_in_another_process(hash_seed: int, *, has_groups: bool) -> str:
    """Addresses in memory and the order of sets are others there."""
    environment = {
        **os.environ,
        "PYTHONHASHSEED": str(hash_seed),
        "PYTHONPATH": str(Path(penstock.__file__).parents[1]),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(SEED), str(has_groups)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("has_groups", [False, True])
def test_two_runs_of_a_seed_are_the_same_to_the_last_byte(has_groups: bool) -> None:
    here = run_seed(SEED, has_groups=has_groups).fingerprint

    assert run_seed(SEED, has_groups=has_groups).fingerprint == here
    elsewhere = [fingerprint_in_another_process(hash_seed, has_groups=has_groups) for hash_seed in (1, 3)]
    assert elsewhere == [here, here]


def test_another_seed_is_another_history() -> None:
    assert run_seed(SEED).fingerprint != run_seed(SEED + 1).fingerprint
