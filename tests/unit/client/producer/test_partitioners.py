"""Partitions of records without a key, and the forms of partitioners."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from penstock.client.errors import BadConfiguration
from penstock.client.producer.partitioners import RoundRobin, Sticky, partitioner_of


def test_shorter_queues_are_preferred() -> None:
    sticky = Sticky(rng=random.Random(1))
    found = Counter(sticky.next_partition([True] * 3, [0, 3, 1]) for _ in range(7000))
    # The longest has weight 1; the others have weight 1 + how much shorter they are.
    assert {index: round(count / 1000) for index, count in found.items()} == {0: 4, 1: 1, 2: 2} or {
        index: round(count / 875) for index, count in found.items()
    } == {0: 4, 1: 1, 2: 3}


def test_without_adaptive_partitioning_all_are_equal() -> None:
    sticky = Sticky(is_adaptive=False, rng=random.Random(1))
    found = Counter(sticky.next_partition([True] * 2, [0, 9]) for _ in range(1000))
    assert min(found.values()) > 400


def test_partitions_without_a_leader_are_skipped_if_there_are_others() -> None:
    sticky = Sticky(rng=random.Random(1))
    assert {sticky.next_partition([False, True, False], [0, 5, 0]) for _ in range(100)} == {1}
    assert {sticky.next_partition([False, False], [0, 0]) for _ in range(100)} == {0, 1}


def test_round_robin_skips_partitions_without_a_leader() -> None:
    partitioner = RoundRobin()
    chosen = [partitioner.partition("orders", b"k", b"v", range(3), [0, 2]) for _ in range(4)]
    assert chosen == [0, 2, 0, 2]
    assert partitioner.partition("other", None, None, range(3), []) == 0


class Own:
    def partition(self, topic: str, key: Any, value: Any, partitions: Any, available: Any) -> int:
        return 1


@pytest.mark.parametrize(
    "spec",
    [Own, Own(), f"{__name__}:Own", lambda key, partitions, available: 1],
    ids=["class", "object", "name", "function"],
)
def test_a_partitioner_may_be_a_class_an_object_a_name_or_a_function(spec: Any) -> None:
    import sys

    sys.modules.setdefault(__name__, sys.modules[Own.__module__])
    partitioner, _ = partitioner_of(spec)
    assert partitioner is not None
    assert partitioner.partition("orders", b"k", None, range(2), [0, 1]) == 1


def test_partitioner_names() -> None:
    assert partitioner_of(None) == (None, False)
    assert partitioner_of("default") == (None, False)
    assert partitioner_of("sticky") == (None, True)
    assert isinstance(partitioner_of("round-robin")[0], RoundRobin)


@pytest.mark.parametrize("spec", ["nonsense", "penstock.client:nonsense", "no.such.module:X", 5])
def test_an_invalid_partitioner_is_rejected(spec: Any) -> None:
    with pytest.raises(BadConfiguration):
        partitioner_of(spec)
