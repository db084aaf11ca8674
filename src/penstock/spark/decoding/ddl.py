"""Parses Spark types: `id BIGINT NOT NULL, tags ARRAY<STRING>`, or the JSON of `schema.json()`.

Spark's own parser needs a session, which does not exist in the process where Spark asks a data source for its
schema. This one reads the part of the language that describes data columns; a test compares it with Spark's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.spark.errors import BadOption, UnsupportedSpark
from penstock.spark.internals import data_type_of_json

NAMES: Final[dict[str, Callable[[], DataType]]] = {
    "boolean": BooleanType,
    "tinyint": ByteType,
    "byte": ByteType,
    "smallint": ShortType,
    "short": ShortType,
    "int": IntegerType,
    "integer": IntegerType,
    "bigint": LongType,
    "long": LongType,
    "float": FloatType,
    "real": FloatType,
    "double": DoubleType,
    "string": StringType,
    "binary": BinaryType,
    "date": DateType,
    "timestamp": TimestampType,
    "timestamp_ltz": TimestampType,
    "timestamp_ntz": TimestampNTZType,
}
DECIMALS: Final = ("decimal", "dec", "numeric")
TOKEN: Final = re.compile(
    r"""\s*(?:(?P<quoted>`(?:[^`]|``)*`)|(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<word>\w+)|(?P<sign>[<>(),:]))"""
)
NESTING_MAX = 100  # deeper nesting is a mistake, and would hit Python's recursion limit


def data_type_of(text: str) -> DataType:
    """The type that the text names; a list of columns is a struct."""
    stripped = text.strip()
    if stripped[:1] in ("{", '"'):
        return _of_json(stripped)
    return _Parser(text).parse()


def _of_json(text: str) -> DataType:
    try:
        return data_type_of_json(json.loads(text))
    except UnsupportedSpark:
        raise
    except Exception as error:  # Spark's parser raises many kinds
        raise BadOption(f"not a Spark type in JSON: {error}") from error


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._tokenize(text)
        self._position = 0
        self._depth = 0

    def parse(self) -> DataType:
        if not self._tokens:
            raise BadOption("a schema needs at least one column, such as `id BIGINT`")
        # One type, or columns: after a type comes nothing, `<` or `(`; after the name of a column its type.
        following = self._tokens[1][1] if len(self._tokens) > 1 else ""
        is_type = self._tokens[0][0] == "word" and following in ("", "<", "(")
        parsed = self._type() if is_type else StructType(self._columns(end=""))
        if self._position < len(self._tokens):
            self._reject("the end")
        return parsed

    def _columns(self, *, end: str) -> list[StructField]:
        columns: list[StructField] = []
        while True:
            columns.append(self._column())
            if not self._take(","):
                break
        if end and not self._take(end):
            self._reject(f"`,` or `{end}`")
        return columns

    def _column(self) -> StructField:
        kind, name = self._next("the name of a column")
        if kind == "quoted":
            name = name[1:-1].replace("``", "`")
        elif kind != "word":
            self._reject("the name of a column", back=1)
        self._take(":")
        data_type = self._type()
        nullable = True
        if self._take("not"):
            if not self._take("null"):
                self._reject("NULL after NOT")
            nullable = False
        metadata: dict[str, Any] = {}
        if self._take("comment"):
            kind, comment = self._next("a comment in quotes")
            if kind != "text":
                self._reject("a comment in quotes", back=1)
            metadata["comment"] = re.sub(r"\\(.)", r"\1", comment[1:-1])
        return StructField(name, data_type, nullable, metadata)

    def _type(self) -> DataType:
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise BadOption(f"types may be nested at most {NESTING_MAX} deep")
        kind, word = self._next("a type")
        name = word.lower()
        parsed: DataType
        if kind == "word" and name in NAMES:
            parsed = NAMES[name]()
        elif kind == "word" and name in DECIMALS:
            parsed = self._decimal()
        elif kind == "word" and name in ("char", "varchar"):
            self._numbers()
            parsed = StringType()
        elif kind == "word" and name == "array":
            self._open()
            parsed = ArrayType(self._type())
            self._close()
        elif kind == "word" and name == "map":
            self._open()
            key = self._type()
            if not self._take(","):
                self._reject("`,` between the types of keys and values")
            parsed = MapType(key, self._type())
            self._close()
        elif kind == "word" and name == "struct":
            self._open()
            parsed = StructType([] if self._take(">") else self._columns(end=">"))
        else:
            self._reject("a type such as BIGINT, STRING, ARRAY<...> or STRUCT<...>", back=1)
        self._depth -= 1
        return parsed

    def _decimal(self) -> DecimalType:
        numbers = self._numbers()
        precision, scale = (*numbers, 0)[:2] if numbers else (10, 0)
        if len(numbers) > 2 or not 0 < precision <= 38 or scale > precision:
            self._reject("DECIMAL(precision, scale) of at most 38 digits")
        return DecimalType(precision, scale)

    def _numbers(self) -> list[int]:
        numbers: list[int] = []
        if self._take("("):
            while True:
                kind, word = self._next("a number")
                if kind != "word" or not word.isdecimal():
                    self._reject("a number", back=1)
                numbers.append(int(word))
                if not self._take(","):
                    break
            if not self._take(")"):
                self._reject("`)`")
        return numbers

    def _open(self) -> None:
        if not self._take("<"):
            self._reject("`<`")

    def _close(self) -> None:
        if not self._take(">"):
            self._reject("`>`")

    def _take(self, word: str) -> bool:
        if self._position < len(self._tokens):
            kind, found = self._tokens[self._position]
            if kind in ("word", "sign") and found.lower() == word:
                self._position += 1
                return True
        return False

    def _next(self, wanted: str) -> tuple[str, str]:
        if self._position == len(self._tokens):
            self._reject(wanted)
        self._position += 1
        return self._tokens[self._position - 1]

    def _reject(self, wanted: str, *, back: int = 0) -> NoReturn:
        at = self._position - back
        found = f"`{self._tokens[at][1]}`" if at < len(self._tokens) else "its end"
        raise BadOption(f"the schema {self._text!r} has {found} where {wanted} was expected")

    @staticmethod
    def _tokenize(text: str) -> list[tuple[str, str]]:
        tokens, position = [], 0
        text = text.strip()
        while position < len(text):
            match = TOKEN.match(text, position)
            if match is None or match.lastgroup is None:
                raise BadOption(f"the schema {text!r} has an unexpected {text[position:][:20]!r}")
            tokens.append((match.lastgroup, match.group(match.lastgroup)))
            position = match.end()
        return tokens
