"""Which partition of its topic a coordinator keeps a group or a transaction in."""

from __future__ import annotations

from functools import lru_cache

REMEMBERED_LENGTH_MAX = 256  # nobody's own ids are longer, and 65,536 of the longest would be 2 GB


def partition_of(name: str, partition_count: int) -> int:
    """As every Kafka tool reckons it: Java's hash of the id, without its sign."""
    is_short = len(name) <= REMEMBERED_LENGTH_MAX
    value = java_hash(name) if is_short else java_hash.__wrapped__(name)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count


@lru_cache(maxsize=1 << 16)  # asked for with every heartbeat of every member
def java_hash(text: str) -> int:
    """`String.hashCode`: over UTF-16 units, because that is what Java's strings are."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
