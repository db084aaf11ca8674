"""A whole node, with everything that can go wrong going wrong: whatever it promised, it keeps.

Records that were acknowledged or read are there, once and in order; topics, settings and ids are as they were answered;
a failing directory takes nothing else with it; the node starts on whatever a power cut left behind.
"""

from __future__ import annotations

from penstock.testing.scenario import run_seed


def test_every_promise_is_kept(seed: int) -> None:
    try:
        report = run_seed(seed)
    except Exception as error:
        error.add_note(f"seed {seed} repeats it: make simulate SEED={seed}")
        raise

    assert report.acknowledged > 0
    assert report.lives > 1
