"""Faults that are put into the node on purpose, and have to be found: otherwise a seed that passes means nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from penstock.testing.scenario import run_seed
from penstock.testing.simulation import BrokenPromise

Mutation = Callable[[pytest.MonkeyPatch], None]
"""Its name says what is wrong with a node that has it."""


def find_out(
    mutation: Mutation, patch: pytest.MonkeyPatch, seeds: Iterable[int], **scenario: bool | None
) -> None:
    """Fails unless one of the seeds breaks a promise."""
    mutation(patch)
    tried = 0
    for seed in seeds:
        try:
            run_seed(seed, **scenario)
        except BrokenPromise as found:
            print(f"found by seed {seed}: {found}")
            return
        tried += 1
    pytest.fail(f"{tried} seeds did not notice that it {mutation.__name__.replace('_', ' ')}")
