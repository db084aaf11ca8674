"""Rows as Arrow messages."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock.client.serializers import ArrowDeserializer, ArrowSerializer, deserializer_of, serializer_of

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
ROWS = [{"id": 1, "name": "tea"}, {"id": 2, "name": None}]
BATCH = pa.RecordBatch.from_pylist(ROWS, schema=SCHEMA)


def write(serializer: Any, value: Any) -> bytes:
    data: bytes = serializer.for_topic("orders", is_key=False)(value)
    return data


def read(deserializer: Any, data: bytes) -> Any:
    return deserializer.for_topic("orders", is_key=False)(data)


@pytest.mark.parametrize(
    "value", [BATCH, pa.Table.from_batches([BATCH]), pa.Table.from_batches([BATCH[:1], BATCH[1:]])]
)
@pytest.mark.parametrize("schema", [None, SCHEMA], ids=["described", "known"])
def test_rows_round_trip(value: Any, schema: Any) -> None:
    data = write(ArrowSerializer(schema), value)

    assert read(ArrowDeserializer(schema), data).to_pylist() == ROWS


@pytest.mark.parametrize("schema", [None, SCHEMA], ids=["described", "known"])
def test_one_row_of_a_table_can_be_written(schema: Any) -> None:
    row = BATCH.to_struct_array()[0]

    assert read(ArrowDeserializer(schema), write(ArrowSerializer(schema), row)).to_pylist() == ROWS[:1]


def test_a_dict_is_a_row_of_the_known_schema() -> None:
    data = write(ArrowSerializer(SCHEMA), {"id": 2, "name": None})

    assert read(ArrowDeserializer(SCHEMA), data).schema == SCHEMA


def test_empty_batches_round_trip() -> None:
    empty = SCHEMA.empty_table()

    assert read(ArrowDeserializer(), write(ArrowSerializer(), empty)).num_rows == 0


def test_a_known_schema_is_not_in_each_record() -> None:
    assert len(write(ArrowSerializer(SCHEMA), BATCH)) < len(write(ArrowSerializer(), BATCH))


def test_the_name_means_rows_with_their_schema() -> None:
    data = write(serializer_of("arrow"), BATCH)

    assert read(deserializer_of("arrow"), data).to_pylist() == ROWS
    assert pa.ipc.open_stream(data).read_all().to_pylist() == ROWS


@pytest.mark.parametrize("value", [5, "rows", [ROWS]])
def test_other_values_are_rejected(value: Any) -> None:
    with pytest.raises(TypeError, match="must be a RecordBatch"):
        write(ArrowSerializer(), value)


def test_rows_of_another_schema_are_rejected() -> None:
    with pytest.raises(ValueError):
        write(ArrowSerializer(SCHEMA), pa.RecordBatch.from_pylist([{"other": 1}]))
