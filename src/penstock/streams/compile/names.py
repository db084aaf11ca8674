"""Names of an application's topics and queries, as in Kafka Streams."""

from __future__ import annotations


def changelog(application_id: str, store: str) -> str:
    return f"{application_id}-{store}-changelog"


def query(application_id: str, stage: str) -> str:
    """The name of a Spark query."""
    return f"{application_id}-{stage}"


def internal(application_id: str, topic: str) -> str:
    """`topic` is a crossing's name, which ends in `-repartition`."""
    return f"{application_id}-{topic}"
