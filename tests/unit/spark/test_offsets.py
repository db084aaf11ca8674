"""Where a query starts and ends, by its options and the cluster's offsets; offsets as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.cluster import TopicPartition
from penstock.protocol.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from penstock.spark.errors import BadCheckpoint, BadOption
from penstock.spark.offsets import Offsets, StreamOffset, ending_edge, resolve, starting_edge
from penstock.spark.options import Options, Use

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)

topics = st.text("abc.-_", min_size=1, max_size=4)
partitions = st.builds(TopicPartition, topics, st.integers(0, 20))
positions = st.dictionaries(partitions, st.integers(0, 2**62), max_size=8)


def options(**chosen: str) -> Options:
    return Options.read({"kafka.bootstrap.servers": "h:1", "subscribe": "a", **chosen}, Use.BATCH_READ)


class Cluster:
    """Logs with offsets 10 to 20; the record at offset n has timestamp n."""

    def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        return {partition: self._place(at) for partition, at in wanted.items()}

    @staticmethod
    def _place(at: int) -> int:
        if at < 0:
            return {EARLIEST_TIMESTAMP: 10, LATEST_TIMESTAMP: 20}[at]
        return max(at, 10) if at < 20 else -1


@given(positions, st.dictionaries(topics, st.text(min_size=1, max_size=5)))
def test_an_offset_survives_json(offsets: Offsets, ids: dict[str, str]) -> None:
    offset = StreamOffset(offsets, ids)

    back = StreamOffset.of_json(json.loads(json.dumps(offset.to_json())))

    assert back.offsets == offsets
    assert back.ids == {topic: ids[topic] for topic in {each.topic for each in offsets} if topic in ids}


@given(positions)
def test_the_same_offset_is_always_the_same_text(offsets: Offsets) -> None:
    turned = dict(reversed(offsets.items()))

    assert json.dumps(StreamOffset(offsets).to_json()) == json.dumps(StreamOffset(turned).to_json())


def test_an_offset_of_sparks_connector_is_accepted() -> None:
    assert StreamOffset.of_json({"a": {"0": 17}}) == StreamOffset({A0: 17})


@pytest.mark.parametrize("foreign", [{"value": 3}, {"logOffset": {"0": "x"}}])
def test_an_offset_of_another_source_is_rejected(foreign: dict[str, object]) -> None:
    with pytest.raises(BadCheckpoint, match="a query with another source"):
        StreamOffset.of_json(foreign)


def test_by_default_batches_start_at_earliest_and_streams_at_latest() -> None:
    assert starting_edge(options(), is_stream=False).end == EARLIEST_TIMESTAMP
    assert starting_edge(options(), is_stream=True).end == LATEST_TIMESTAMP
    assert ending_edge(options()).end == LATEST_TIMESTAMP


@pytest.mark.parametrize(
    ("chosen", "expected"),
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
def test_starting_offsets(chosen: dict[str, str], expected: Offsets) -> None:
    edge = starting_edge(options(**chosen), is_stream=False)

    assert resolve(edge, [A0, A1], Cluster().list_offsets) == expected


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, {A0: 20, A1: 20}),
        ({"endingOffsets": '{"a": {"0": 13, "1": -1}}'}, {A0: 13, A1: 20}),
        ({"endingTimestamp": "15"}, {A0: 15, A1: 15}),
        ({"endingTimestamp": "99"}, {A0: 20, A1: 20}),
        ({"endingOffsetsByTimestamp": '{"a": {"0": 12, "1": 99}}'}, {A0: 12, A1: 20}),
    ],
)
def test_ending_offsets(chosen: dict[str, str], expected: Offsets) -> None:
    assert resolve(ending_edge(options(**chosen)), [A0, A1], Cluster().list_offsets) == expected


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"startingOffsets": "latest"}, "reads nothing"),
        ({"startingOffsets": '{"a": {"0": -1}}'}, "cannot start at the latest offset of a-0"),
        ({"endingOffsets": "earliest"}, "reads nothing"),
        ({"endingOffsets": '{"a": {"0": -2}}'}, "cannot end at the earliest offset of a-0"),
    ],
)
def test_a_batch_that_cannot_have_rows_is_rejected(chosen: dict[str, str], message: str) -> None:
    with pytest.raises(BadOption, match=message):
        _ = starting_edge(options(**chosen), is_stream=False), ending_edge(options(**chosen))


def test_offsets_must_name_all_partitions_and_no_others() -> None:
    cluster = Cluster()
    edge = starting_edge(options(startingOffsets='{"a": {"0": 1}}'), is_stream=True)
    with pytest.raises(BadOption, match="has no value for a-1, b-0;"):
        resolve(edge, [A0, A1, B0], cluster.list_offsets)
    with pytest.raises(BadOption, match="names a-0, which the query does not read"):
        resolve(edge, [], cluster.list_offsets)


def test_ending_offsets_that_lack_partitions_are_not_advised_to_use_the_earliest_offset() -> None:
    edge = ending_edge(options(endingOffsets='{"a": {"0": 1}}'))
    with pytest.raises(BadOption, match="name all partitions, with -1 for latest"):
        resolve(edge, [A0, A1], Cluster().list_offsets)


def test_a_timestamp_after_the_last_record_is_rejected_unless_the_strategy_is_latest() -> None:
    edge = starting_edge(options(startingTimestamp="99"), is_stream=True)

    with pytest.raises(BadOption, match="a-0 has no record with timestamp 99 or later"):
        resolve(edge, [A0], Cluster().list_offsets)
