"""Names of what an application has in the cluster, as Kafka Streams gives them."""

from __future__ import annotations


def changelog(application_id: str, store: str) -> str:
    return f"{application_id}-{store}-changelog"


def query(application_id: str, stage: str) -> str:
    """Of Spark."""
    return f"{application_id}-{stage}"


def internal(application_id: str, topic: str) -> str:
    """`topic` as a crossing has it, which ends in `-repartition`."""
    return f"{application_id}-{topic}"
