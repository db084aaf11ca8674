"""Batches of rows in Arrow's IPC format."""

from __future__ import annotations

import base64

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.serializers import ArrowSerializer
from penstock.spark.decoding.arrow_ipc import ArrowDecoder
from penstock.spark.errors import BadOption

BATCH = pa.RecordBatch.from_pydict(
    {"id": pa.array([1, 2], pa.int32()), "name": ["a", None], "more": [True, False]}
)
STREAM = ArrowSerializer().for_topic("t", is_key=False)(BATCH)
MESSAGE = ArrowSerializer(BATCH.schema).for_topic("t", is_key=False)(BATCH)
ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": None}]


def column(*values: bytes | None) -> pa.Array:
    return pa.array(list(values), pa.binary())


def test_columns_of_streams_are_matched_by_name_and_cast() -> None:
    decoder = ArrowDecoder.of("name STRING, id BIGINT")

    decoded = decoder.decode(column(STREAM, None, STREAM))

    assert decoded.bad == []
    assert decoded.values.to_pylist() == [ROWS, None, ROWS]
    assert decoded.values.type == decoder.arrow_type


def test_messages_without_a_schema_use_the_given_one() -> None:
    decoder = ArrowDecoder.of(base64.b64encode(BATCH.schema.serialize()).decode())

    decoded = decoder.decode(column(MESSAGE, STREAM))

    assert decoder.data_type.simpleString() == "array<struct<id:int,name:string,more:boolean>>"
    assert decoded.values.to_pylist() == [BATCH.to_pylist()] * 2


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("id BIGINT, missing STRING", "lack the columns missing"),
        ("id STRUCT<a: INT>", "nsupported cast"),
        ("name INT", "a"),
    ],
)
def test_rows_of_another_shape_are_bad(schema: str, message: str) -> None:
    decoded = ArrowDecoder.of(schema).decode(column(STREAM))

    assert message in decoded.bad[0].reason
    assert decoded.values.to_pylist() == [None]


def test_a_stream_may_be_empty() -> None:
    empty = ArrowSerializer().for_topic("t", is_key=False)(BATCH.slice(0, 0))

    assert ArrowDecoder.of("id BIGINT").decode(column(empty)).values.to_pylist() == [[]]


@settings(deadline=None, max_examples=300)
@given(st.sampled_from([STREAM, MESSAGE]), st.data())
def test_a_damaged_value_affects_only_its_row(value: bytes, data: st.DataObject) -> None:
    damaged = bytearray(value)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    decoder = ArrowDecoder.of(base64.b64encode(BATCH.schema.serialize()).decode())

    decoded = decoder.decode(column(STREAM, bytes(damaged), STREAM))

    assert {bad.row for bad in decoded.bad} <= {1}
    decoded.values.validate(full=True)
    assert decoded.values[0].as_py() == decoded.values[2].as_py() == BATCH.to_pylist()


def test_rows_need_columns() -> None:
    with pytest.raises(BadOption, match="must name columns"):
        ArrowDecoder.of("BIGINT")
