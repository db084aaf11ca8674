"""One seed, one history: otherwise a failure could not be looked at a second time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import penstock
from penstock.testing.scenario import run_seed

SEED = 1  # it has stops and kills in it, with many connections open
PROGRAM = """
import sys
from penstock.testing.scenario import run_seed
themes = {theme: theme in sys.argv[2:] for theme in ("has_groups", "has_transactions")}
print(run_seed(int(sys.argv[1]), **themes).fingerprint)
"""


def fingerprint_in_another_process(hash_seed: int, themes: Sequence[str]) -> str:
    """Addresses in memory and the order of sets are others there."""
    environment = {
        **os.environ,
        "PYTHONHASHSEED": str(hash_seed),
        "PYTHONPATH": str(Path(penstock.__file__).parents[1]),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(SEED), *themes],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("themes", [(), ("has_groups",), ("has_transactions",)])
def test_two_runs_of_a_seed_are_the_same_to_the_last_byte(themes: Sequence[str]) -> None:
    arguments = dict.fromkeys(("has_groups", "has_transactions"), False) | dict.fromkeys(themes, True)
    here = run_seed(SEED, **arguments).fingerprint

    assert run_seed(SEED, **arguments).fingerprint == here
    elsewhere = [fingerprint_in_another_process(hash_seed, themes) for hash_seed in (1, 3)]
    assert elsewhere == [here, here]


def test_another_seed_is_another_history() -> None:
    assert run_seed(SEED).fingerprint != run_seed(SEED + 1).fingerprint
