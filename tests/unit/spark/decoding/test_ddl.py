"""Spark types as text."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from penstock.spark.decoding.ddl import data_type_of
from penstock.spark.errors import BadOption


def test_columns_are_a_struct() -> None:
    parsed = data_type_of(
        "id BIGINT NOT NULL COMMENT 'number', `a b` array<string>, c: STRUCT<x: INT, y: map<string, decimal(5,2)>>"
    )

    assert parsed == StructType(
        [
            StructField("id", LongType(), False, {"comment": "number"}),
            StructField("a b", ArrayType(StringType())),
            StructField(
                "c",
                StructType(
                    [
                        StructField("x", IntegerType()),
                        StructField("y", MapType(StringType(), DecimalType(5, 2))),
                    ]
                ),
            ),
        ]
    )


def test_a_single_type_is_accepted() -> None:
    assert data_type_of(" bigint ") == LongType()
    assert data_type_of("ARRAY<ARRAY<INT>>") == ArrayType(ArrayType(IntegerType()))
    assert data_type_of("decimal") == DecimalType(10, 0)
    assert data_type_of("DECIMAL(7)") == DecimalType(7, 0)


def test_columns_may_have_names_of_types() -> None:
    assert data_type_of("date DATE, map STRING").names == ["date", "map"]  # type: ignore[attr-defined]


def test_sparks_json_is_accepted() -> None:
    schema = data_type_of("id BIGINT NOT NULL, tags ARRAY<STRING>")

    assert data_type_of(schema.json()) == schema


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at least one column"),
        ("id", "a type such as BIGINT"),
        ("id BIGINTEGER", "a type such as BIGINT"),
        ("id BIGINT,", "the name of a column"),
        ("id BIGINT name STRING", "the end"),
        ("tags ARRAY<STRING", "`>`"),
        ("tags ARRAY", "`<`"),
        ("m MAP<STRING>", "keys and values"),
        ("d DECIMAL(50,2)", "38 digits"),
        ("id BIGINT NOT", "NULL after NOT"),
        ("id BIGINT; drop", "has an unexpected"),
        ("ARRAY<" * 200, "100 deep"),
        ('{"type": "nonsense"}', "not a Spark type in JSON"),
    ],
)
def test_bad_schemas_are_rejected_with_a_helpful_error(text: str, message: str) -> None:
    with pytest.raises(BadOption) as caught:
        data_type_of(text)

    assert message in str(caught.value)
