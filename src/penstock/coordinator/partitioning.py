"""The partition of an internal topic that a group or a transactional id belongs to."""

from __future__ import annotations

from functools import lru_cache

REMEMBERED_LENGTH_MAX = 256  # longer ids are rare, and 65,536 of the longest would be 2 GB


def partition_of(name: str, partition_count: int) -> int:
    """Kafka's formula: the absolute value of Java's hash of the id."""
    is_short = len(name) <= REMEMBERED_LENGTH_MAX
    value = java_hash(name) if is_short else java_hash.__wrapped__(name)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count


@lru_cache(maxsize=1 << 16)  # needed for every heartbeat
def java_hash(text: str) -> int:
    """Java's `String.hashCode`, over UTF-16 units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
