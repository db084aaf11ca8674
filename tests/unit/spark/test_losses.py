"""What counts as data loss, and its messages."""

from __future__ import annotations

import logging

import pytest

from penstock.client.cluster import TopicPartition
from penstock.spark.errors import DataLost
from penstock.spark.losses import lost_between, lost_of_new, read_from_start, report
from penstock.spark.offsets import StreamOffset

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
BEFORE = StreamOffset({A0: 5, A1: 7}, {"a": "one"})


def test_new_records_are_no_loss() -> None:
    after = StreamOffset({A0: 5, A1: 9, B0: 3}, {"a": "one", "b": "x"})

    assert lost_between(BEFORE, after) == []
    assert read_from_start(BEFORE, after) == [B0]


def test_a_deleted_topic_is_a_loss() -> None:
    assert lost_between(BEFORE, StreamOffset({})) == [
        "topic a was deleted; it was read up to offset 5 of a-0, offset 7 of a-1"
    ]


def test_a_recreated_topic_is_a_loss_even_with_more_records_than_before() -> None:
    after = StreamOffset({A0: 50}, {"a": "two"})

    (message,) = lost_between(BEFORE, after)

    assert "topic a was deleted and recreated (its id was one, now two)" in message
    assert read_from_start(BEFORE, after) == [A0]


def test_a_log_that_ends_before_the_querys_offset_is_a_loss() -> None:
    after = StreamOffset({A0: 5, A1: 6}, {"a": "one"})

    assert lost_between(BEFORE, after) == ["a-1 ends at offset 6, but the query has read up to offset 7"]


def test_without_topic_ids_topics_count_as_the_same() -> None:
    before = StreamOffset({A0: 5})

    assert lost_between(before, StreamOffset({A0: 6}, {"a": "one"})) == []


def test_a_new_partition_that_does_not_start_at_offset_0_is_a_loss() -> None:
    assert lost_of_new({A0: 0}) == []
    assert "a-1 is new to the query, but starts at offset 3" in lost_of_new({A1: 3})[0]


def test_a_loss_fails_the_query_or_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(
        DataLost, match=r"this; that \(failOnDataLoss=false continues with the records that exist; a new"
    ):
        report(["this", "that"], fails=True)
    with caplog.at_level(logging.WARNING):
        report(["this", "that"], fails=False)
    assert caplog.messages == ["data was lost: this", "data was lost: that"]
    report([], fails=True)
