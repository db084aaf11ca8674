"""Where a query begins and ends, by its options and what a cluster has; offsets as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.cluster import TopicPartition
from penstock.spark.errors import BadCheckpoint, BadOption
from penstock.spark.offsets import (
    EARLIEST,
    LATEST,
    Offsets,
    StreamOffset,
    ending_edge,
    resolve,
    starting_edge,
)
from penstock.spark.options import Options, Use

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)

topics = st.text("abc.-_", min_size=1, max_size=4)
partitions = st.builds(TopicPartition, topics, st.integers(0, 20))
positions = st.dictionaries(partitions, st.integers(0, 2**62), max_size=8)


def options(**said: str) -> Options:
    return Options.read({"kafka.bootstrap.servers": "h:1", "subscribe": "a", **said}, Use.BATCH_READ)


class Cluster:
    """Logs with offsets 10 to 20, whose record at offset n is of time n."""

    def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        return {partition: self._place(at) for partition, at in wanted.items()}

    @staticmethod
    def _place(at: int) -> int:
        if at < 0:
            return {EARLIEST: 10, LATEST: 20}[at]
        return max(at, 10) if at < 20 else -1


@given(positions, st.dictionaries(topics, st.text(min_size=1, max_size=5)))
def test_an_offset_survives_the_journey_through_json(offsets: Offsets, ids: dict[str, str]) -> None:
    told = StreamOffset(offsets, ids)

    back = StreamOffset.of_json(json.loads(json.dumps(told.to_json())))

    assert back.offsets == offsets
    assert back.ids == {topic: ids[topic] for topic in {each.topic for each in offsets} if topic in ids}


@given(positions)
def test_the_same_offset_is_always_the_same_text(offsets: Offsets) -> None:
    turned = dict(reversed(offsets.items()))

    assert json.dumps(StreamOffset(offsets).to_json()) == json.dumps(StreamOffset(turned).to_json())


def test_an_offset_of_the_connector_is_understood() -> None:
    assert StreamOffset.of_json({"a": {"0": 17}}) == StreamOffset({A0: 17})


@pytest.mark.parametrize("foreign", [{"value": 3}, {"logOffset": {"0": "x"}}])
def test_an_offset_of_another_source_is_refused(foreign: dict[str, object]) -> None:
    with pytest.raises(BadCheckpoint, match="a query with another source"):
        StreamOffset.of_json(foreign)


def test_a_batch_begins_at_the_earliest_and_a_stream_at_the_latest() -> None:
    assert starting_edge(options(), is_stream=False).end == EARLIEST
    assert starting_edge(options(), is_stream=True).end == LATEST
    assert ending_edge(options()).end == LATEST


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, {A0: 10, A1: 10}),
        ({"startingOffsets": '{"a": {"0": 13, "1": -2}}'}, {A0: 13, A1: 10}),
        ({"startingTimestamp": "15", "startingOffsets": "earliest"}, {A0: 15, A1: 15}),
        ({"startingOffsetsByTimestamp": '{"a": {"0": 12, "1": 5}}'}, {A0: 12, A1: 10}),
        (
            {"startingTimestamp": "99", "startingOffsetsByTimestampStrategy": "latest"},
            {A0: 20, A1: 20},
        ),
    ],
)
def test_starting_offsets(said: dict[str, str], expected: Offsets) -> None:
    edge = starting_edge(options(**said), is_stream=False)

    assert resolve(edge, [A0, A1], Cluster().list_offsets) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, {A0: 20, A1: 20}),
        ({"endingOffsets": '{"a": {"0": 13, "1": -1}}'}, {A0: 13, A1: 20}),
        ({"endingTimestamp": "15"}, {A0: 15, A1: 15}),
        ({"endingTimestamp": "99"}, {A0: 20, A1: 20}),
        ({"endingOffsetsByTimestamp": '{"a": {"0": 12, "1": 99}}'}, {A0: 12, A1: 20}),
    ],
)
def test_ending_offsets(said: dict[str, str], expected: Offsets) -> None:
    assert resolve(ending_edge(options(**said)), [A0, A1], Cluster().list_offsets) == expected


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"startingOffsets": "latest"}, "reads nothing"),
        ({"startingOffsets": '{"a": {"0": -1}}'}, "cannot begin at the latest offset of a-0"),
        ({"endingOffsets": "earliest"}, "reads nothing"),
        ({"endingOffsets": '{"a": {"0": -2}}'}, "cannot end at the earliest offset of a-0"),
    ],
)
def test_a_batch_that_cannot_have_rows_is_refused(said: dict[str, str], words: str) -> None:
    with pytest.raises(BadOption, match=words):
        _ = starting_edge(options(**said), is_stream=False), ending_edge(options(**said))


def test_offsets_have_to_name_all_partitions_and_no_other() -> None:
    cluster = Cluster()
    edge = starting_edge(options(startingOffsets='{"a": {"0": 1}}'), is_stream=True)
    with pytest.raises(BadOption, match="does not say where a-1, b-0 begin;"):
        resolve(edge, [A0, A1, B0], cluster.list_offsets)
    with pytest.raises(BadOption, match="names a-0, which the query does not read"):
        resolve(edge, [], cluster.list_offsets)


def test_a_time_after_the_last_record_is_refused_unless_latest_will_do() -> None:
    edge = starting_edge(options(startingTimestamp="99"), is_stream=True)

    with pytest.raises(BadOption, match="no record of a-0 is of 99 or later"):
        resolve(edge, [A0], Cluster().list_offsets)
