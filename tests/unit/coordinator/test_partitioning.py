from __future__ import annotations

import pytest

from penstock.coordinator.partitioning import java_hash, partition_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("console-consumer-12345", 158455506),
        ("polygenelubricants", -(1 << 31)),
        ("größe", 98762257),
        ("\U0001f600", 1772899),
    ],
)
def test_the_hash_is_that_of_a_java_string(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_the_minimum_hash_maps_to_partition_0() -> None:
    assert partition_of("polygenelubricants", 50) == 0


def test_long_ids_are_not_cached() -> None:
    partition_of("console-consumer-12345", 50)
    remembered = java_hash.cache_info().currsize

    for number in range(10):
        partition_of(f"{number:32767}", 50)

    assert java_hash.cache_info().currsize == remembered
    assert partition_of("a" * 300, 50) == abs(java_hash("a" * 300)) % 50
