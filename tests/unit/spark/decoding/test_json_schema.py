"""JSON Schemas as Spark types."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.spark.decoding.json_schema import data_type_by
from penstock.spark.errors import BadOption


def test_objects_are_structs_and_required_fields_are_not_null() -> None:
    schema = {
        "$defs": {"line": {"properties": {"article": {"type": "string"}}, "required": ["article"]}},
        "type": "object",
        "required": ["id", "lines", "maybe"],
        "properties": {
            "id": {"type": "integer"},
            "price": {"type": ["number", "null"]},
            "paid": {"type": "boolean"},
            "on": {"type": "string", "format": "date"},
            "at": {"type": "string", "format": "date-time"},
            "state": {"enum": ["new", "paid"]},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
            "maybe": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/line"}]},
            "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
    }

    data_type = data_type_by(json.dumps(schema))

    assert data_type.simpleString() == (
        "struct<id:bigint,price:double,paid:boolean,on:date,at:timestamp,state:string,"
        "lines:array<struct<article:string>>,maybe:struct<article:string>,counts:map<string,bigint>>"
    )
    fields: Any = data_type
    assert [field.name for field in fields if not field.nullable] == ["id", "lines"]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "not a JSON Schema"),
        ("true", "may be anything"),
        ("{}", "may be anything"),
        ('{"type": ["string", "integer"]}', "several types"),
        ('{"oneOf": [{"type": "string"}, {"type": "integer"}]}', "several types"),
        ('{"$ref": "#/nowhere"}', "does not exist"),
        ('{"$ref": "other.json"}', "another document"),
        ('{"$ref": "#"}', "refers to itself"),
        ('{"properties": {"next": {"$ref": "#"}}}', "inside itself"),
    ],
)
def test_schemas_without_a_spark_type_are_rejected(schema: str, message: str) -> None:
    with pytest.raises(BadOption) as caught:
        data_type_by(schema)

    assert message in str(caught.value)
