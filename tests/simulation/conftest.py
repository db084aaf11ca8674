"""Seeds for simulations: a few in every run of the suite, one by `--seed`, as many as wanted by `--seeds`.

With both, `--seeds 1000 --seed 5000` takes a thousand from 5000 on.
"""

from __future__ import annotations

import pytest

SEEDS_IN_SUITE = 30


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", seeds(metafunc.config))


def seeds(config: pytest.Config) -> range:
    first: int | None = config.getoption("--seed")
    count: int | None = config.getoption("--seeds")
    if first is None:
        return range(count or SEEDS_IN_SUITE)
    return range(first, first + (count or 1))
