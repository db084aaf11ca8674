"""Maps JSON Schemas to Spark types.

Objects with properties are structs, and a property is nullable unless it is required and not nullable; objects that
only declare additional properties become maps. Numbers are doubles, integers bigints, and strings with the formats
`date` and `date-time` dates and timestamps. A schema that allows several types in one place has no Spark type and is
rejected; `valueSchema` overrides it.
"""

from __future__ import annotations

import json
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.spark.errors import BadOption

SIMPLE: Final = {"boolean": BooleanType, "integer": LongType, "number": DoubleType}
FORMATS: Final = {"date": DateType, "date-time": TimestampType}
REFERENCES_MAX = 50  # a chain of references this long is a cycle


def data_type_by(text: str) -> DataType:
    """The type of the values that the schema allows."""
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise BadOption(f"not a JSON Schema: {error}") from error
    return _Mapping(schema).type_of(schema, "the value")[0]


class _Mapping:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._depth = 0

    def type_of(self, schema: Any, place: str) -> tuple[DataType, bool]:
        """The type, and whether null is allowed."""
        self._depth += 1
        if self._depth > REFERENCES_MAX:
            raise BadOption(f"{place} is inside itself: Spark has no recursive types")
        found = self._type_of(self._resolved(schema, place), place)
        self._depth -= 1
        return found

    def _type_of(self, schema: Any, place: str) -> tuple[DataType, bool]:
        if not isinstance(schema, dict):
            raise BadOption(f"{place} may be anything, for which Spark has no type: set valueSchema")
        for word in ("oneOf", "anyOf"):
            if word in schema:
                others = [each for each in schema[word] if each != {"type": "null"}]
                if len(others) != 1:
                    raise BadOption(f"{place} may have several types: set valueSchema")
                data_type, _ = self.type_of(others[0], place)
                return data_type, len(others) < len(schema[word])
        kinds = schema.get("type", "object" if "properties" in schema else None)
        if kinds is None and all(isinstance(each, str) for each in schema.get("enum", (0,))):
            kinds = "string"
        listed = kinds if isinstance(kinds, list) else [kinds]
        others = [kind for kind in listed if kind != "null"]
        nullable = len(others) < len(listed)
        if sorted(map(str, others)) == ["integer", "number"]:
            others = ["number"]
        if len(others) != 1:
            raise BadOption(f"{place} may have several types: set valueSchema")
        return self._simple(others[0], schema, place), nullable

    def _simple(self, kind: Any, schema: dict[str, Any], place: str) -> DataType:
        if kind in SIMPLE:
            return SIMPLE[kind]()
        if kind == "string":
            return FORMATS.get(schema.get("format", ""), StringType)()
        if kind == "array":
            item, nullable = self.type_of(schema.get("items"), f"an item of {place}")
            return ArrayType(item, nullable)
        if kind == "object" and schema.get("properties"):
            required = schema.get("required", ())
            fields = []
            for name, each in schema["properties"].items():
                data_type, nullable = self.type_of(each, name)
                fields.append(StructField(name, data_type, nullable or name not in required))
            return StructType(fields)
        if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
            item, nullable = self.type_of(schema["additionalProperties"], f"a property of {place}")
            return MapType(StringType(), item, nullable)
        raise BadOption(f"{place} may be anything, for which Spark has no type: set valueSchema")

    def _resolved(self, schema: Any, place: str) -> Any:
        for _ in range(REFERENCES_MAX):
            if not isinstance(schema, dict) or "$ref" not in schema:
                return schema
            path = schema["$ref"]
            if not path.startswith("#"):
                raise BadOption(f"{place} refers to {path}, in another document: set valueSchema")
            schema = self._root
            for part in path[1:].split("/")[1:]:
                part = part.replace("~1", "/").replace("~0", "~")
                if not isinstance(schema, dict) or part not in schema:
                    raise BadOption(f"{place} refers to {path}, which does not exist")
                schema = schema[part]
        raise BadOption(f"{place} refers to itself")
