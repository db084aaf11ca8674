"""Groups and transactions on a cluster under all faults: each record is copied exactly once."""

from __future__ import annotations

from simulator.clusters.pipelines import run_pipeline_seed

SEEDS_IN_SUITE = 15


def test_each_record_is_copied_exactly_once_on_a_cluster(seed: int) -> None:
    run_pipeline_seed(seed)
