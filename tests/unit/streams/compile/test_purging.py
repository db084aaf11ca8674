"""Which records of internal topics are deleted, and when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from penstock.client.cluster import TopicPartition
from penstock.streams.compile.purging import Purge, PurgeListener

OWN = TopicPartition("app-second-repartition", 0)
OTHER = TopicPartition("app-second-repartition", 1)
SOURCE = TopicPartition("orders", 0)


def test_only_records_before_the_last_batch_of_internal_topics_are_deleted() -> None:
    purge = Purge({OWN.topic}, interval_ms=30_000)

    assert purge.due({SOURCE: 70, OWN: 5, OTHER: 0}, now_s=100.0) == {OWN: 5}


def test_deletion_happens_at_once_and_then_at_intervals() -> None:
    purge = Purge({OWN.topic}, interval_ms=30_000)
    purge.done(purge.due({OWN: 5}, now_s=100.0))

    assert purge.due({OWN: 9}, now_s=129.0) == {}
    assert purge.due({OWN: 9, OTHER: 3}, now_s=130.0) == {OWN: 9, OTHER: 3}


def test_deleted_records_are_not_deleted_again_but_failed_deletions_are_retried() -> None:
    purge = Purge({OWN.topic}, interval_ms=0)
    purge.done(purge.due({OWN: 5}, now_s=1.0))

    assert purge.due({OWN: 5}, now_s=2.0) == {}
    assert purge.due({OWN: 8}, now_s=3.0) == {OWN: 8}
    assert purge.due({OWN: 8}, now_s=4.0) == {OWN: 8}  # the deletion was not confirmed


class Streams:
    """Stands in for a session: keeps the listeners of its queries."""

    def __init__(self) -> None:
        self.listeners: list[Any] = []
        self.streams = self

    def addListener(self, listener: Any) -> None:
        self.listeners.append(listener)

    def removeListener(self, listener: Any) -> None:
        self.listeners.remove(listener)


def listener(spark: Any) -> Any:
    return PurgeListener(spark, {"app-second": Purge({OWN.topic}, interval_ms=0)}, lambda before: None)


def test_a_late_end_event_of_a_query_does_not_hide_the_next_one() -> None:
    """It did: records of internal topics were not deleted if one stage ran right after another."""
    spark = Streams()
    purging = listener(spark)
    with purging.listening():
        purging.onQueryStarted(SimpleNamespace(name="app-second", runId="one"))

    with purging.listening():
        purging.onQueryTerminated(SimpleNamespace(runId="one"))
        assert spark.listeners == [purging]
        purging.onQueryStarted(SimpleNamespace(name="app-second", runId="two"))

    assert spark.listeners == [purging]
    purging.onQueryTerminated(SimpleNamespace(runId="two"))
    assert spark.listeners == []


def test_queries_without_internal_topics_have_no_listener() -> None:
    spark = Streams()
    purging = listener(spark)
    with purging.listening():
        purging.onQueryStarted(SimpleNamespace(name="another", runId="one"))

    assert spark.listeners == []
