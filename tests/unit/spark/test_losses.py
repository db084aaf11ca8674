"""What is a loss and what is not, and the words for it."""

from __future__ import annotations

import logging

import pytest

from penstock.client.cluster import TopicPartition
from penstock.spark.errors import DataLost
from penstock.spark.losses import begins_anew, lost_between, lost_of_new, report
from penstock.spark.offsets import StreamOffset

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
BEFORE = StreamOffset({A0: 5, A1: 7}, {"a": "one"})


def test_growth_is_no_loss() -> None:
    after = StreamOffset({A0: 5, A1: 9, B0: 3}, {"a": "one", "b": "x"})

    assert lost_between(BEFORE, after) == []
    assert begins_anew(BEFORE, after) == [B0]


def test_a_topic_that_is_gone() -> None:
    assert lost_between(BEFORE, StreamOffset({})) == [
        "topic a is gone; it was read up to offset 5 of a-0, offset 7 of a-1"
    ]


def test_a_topic_that_was_made_anew_even_with_more_records_than_before() -> None:
    after = StreamOffset({A0: 50}, {"a": "two"})

    (words,) = lost_between(BEFORE, after)

    assert "topic a was deleted and made anew (its id was one, and is two)" in words
    assert begins_anew(BEFORE, after) == [A0]


def test_a_log_that_ends_before_what_was_read() -> None:
    after = StreamOffset({A0: 5, A1: 6}, {"a": "one"})

    assert lost_between(BEFORE, after) == ["a-1 ends at offset 6 now, and the query has come to offset 7"]


def test_where_ids_are_not_known_topics_are_taken_for_the_same() -> None:
    before = StreamOffset({A0: 5})

    assert lost_between(before, StreamOffset({A0: 6}, {"a": "one"})) == []


def test_a_new_partition_that_does_not_begin_at_its_beginning() -> None:
    assert lost_of_new({A0: 0}) == []
    assert "a-1 is new to the query, and its first offset is 3" in lost_of_new({A1: 3})[0]


def test_a_loss_ends_the_query_or_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(
        DataLost, match=r"this; that \(failOnDataLoss=false goes on with what there is, a new"
    ):
        report(["this", "that"], fails=True)
    with caplog.at_level(logging.WARNING):
        report(["this", "that"], fails=False)
    assert caplog.messages == ["data was lost: this", "data was lost: that"]
    report([], fails=True)
