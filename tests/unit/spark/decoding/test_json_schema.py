"""JSON Schemas as Spark types."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.spark.decoding.json_schema import data_type_by
from penstock.spark.errors import BadOption


def test_objects_are_structs_and_what_is_required_is_not_null() -> None:
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
    ("schema", "words"),
    [
        ("{", "no JSON Schema"),
        ("true", "may be anything"),
        ("{}", "may be anything"),
        ('{"type": ["string", "integer"]}', "several types"),
        ('{"oneOf": [{"type": "string"}, {"type": "integer"}]}', "several types"),
        ('{"$ref": "#/nowhere"}', "is not there"),
        ('{"$ref": "other.json"}', "another document"),
        ('{"$ref": "#"}', "itself"),
        ('{"properties": {"next": {"$ref": "#"}}}', "inside itself"),
    ],
)
def test_what_has_no_type_is_refused_in_words(schema: str, words: str) -> None:
    with pytest.raises(BadOption) as refused:
        data_type_by(schema)

    assert words in str(refused.value)
