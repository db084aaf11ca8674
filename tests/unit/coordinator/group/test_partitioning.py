from __future__ import annotations

import pytest

from penstock.coordinator.group.partitioning import java_hash, partition_of


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


def test_the_one_number_without_a_positive_counterpart_means_partition_0() -> None:
    assert partition_of("polygenelubricants", 50) == 0
