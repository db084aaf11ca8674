"""What of internal topics may go, and when."""

from __future__ import annotations

from penstock.client.cluster import TopicPartition
from penstock.streams.compile.purging import Purge

OWN = TopicPartition("app-second-repartition", 0)
OTHER = TopicPartition("app-second-repartition", 1)
SOURCE = TopicPartition("orders", 0)


def test_only_what_lies_before_the_last_batch_of_own_topics_goes() -> None:
    purge = Purge({OWN.topic}, interval_ms=30_000)

    assert purge.due({SOURCE: 70, OWN: 5, OTHER: 0}, now_s=100.0) == {OWN: 5}


def test_it_is_done_at_once_and_then_at_intervals() -> None:
    purge = Purge({OWN.topic}, interval_ms=30_000)
    purge.done(purge.due({OWN: 5}, now_s=100.0))

    assert purge.due({OWN: 9}, now_s=129.0) == {}
    assert purge.due({OWN: 9, OTHER: 3}, now_s=130.0) == {OWN: 9, OTHER: 3}


def test_what_is_gone_is_not_deleted_again_and_what_failed_is() -> None:
    purge = Purge({OWN.topic}, interval_ms=0)
    purge.done(purge.due({OWN: 5}, now_s=1.0))

    assert purge.due({OWN: 5}, now_s=2.0) == {}
    assert purge.due({OWN: 8}, now_s=3.0) == {OWN: 8}
    assert purge.due({OWN: 8}, now_s=4.0) == {OWN: 8}  # nobody said that it was done
