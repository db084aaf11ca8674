"""Seeds of simulations: a few in each run of the suite, `--seed` for one, `--seeds` for many.

With both, `--seeds 1000 --seed 5000` runs a thousand from 5000 on. A module whose seeds take long sets a smaller
`SEEDS_IN_SUITE`.
"""

from __future__ import annotations

import gc

import pytest

SEEDS_IN_SUITE = 30


@pytest.fixture(scope="module", autouse=True)
def collect_garbage_of_earlier_tests() -> None:
    """Clients that were not closed log a warning when they are collected; not into the log of a simulated node."""
    gc.collect()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        in_suite = getattr(metafunc.module, "SEEDS_IN_SUITE", SEEDS_IN_SUITE)
        metafunc.parametrize("seed", seeds(metafunc.config, in_suite))


def seeds(config: pytest.Config, in_suite: int) -> range:
    first: int | None = config.getoption("--seed")
    count: int | None = config.getoption("--seeds")
    if first is None:
        return range(count or in_suite)
    return range(first, first + (count or 1))
