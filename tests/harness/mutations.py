"""Bugs put into the node on purpose. If the simulation did not find them, a passing seed would mean nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import pytest

from simulator.scenario import run_seed
from simulator.simulation import BrokenPromise

Mutation = Callable[[pytest.MonkeyPatch], None]
"""The name of the function says what the node does wrong."""


def expect_detection(
    mutation: Mutation,
    patch: pytest.MonkeyPatch,
    seeds: Iterable[int],
    *,
    run: Callable[..., object] = run_seed,
    match: str = "",
    **scenario: bool | None,
) -> None:
    """Fail unless one of the seeds breaks a promise, with words that `match` finds."""
    mutation(patch)
    tried = 0
    for seed in seeds:
        try:
            run(seed, **scenario)
        except BrokenPromise as found:
            print(f"found by seed {seed}: {found}")
            if re.search(match, str(found)):
                return
        tried += 1
    pytest.fail(f"{tried} seeds did not notice that the node {mutation.__name__.replace('_', ' ')}")
