"""Whole clusters under all faults keep their promises.

No record that was acknowledged with acks=all or read by a consumer is lost or changed. No epoch has two leaders. Logs
of in-sync replicas are equal below the high watermark. All nodes have the same metadata. Once the faults end,
everything works again.
"""

from __future__ import annotations

from simulator.clusters.scenario import run_cluster_seed

SEEDS_IN_SUITE = 150


def test_every_promise_of_a_cluster_is_kept(seed: int) -> None:
    try:
        report = run_cluster_seed(seed)
    except Exception as error:
        error.add_note(f"seed {seed} repeats it: make simulate OF=clusters SEED={seed}")
        raise

    assert report.acknowledged > 0
