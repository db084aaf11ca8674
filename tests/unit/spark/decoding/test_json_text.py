"""JSON read at once and row by row: the same values, and only bad rows are bad."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import DataType

from penstock.spark.decoding.base import Decoded
from penstock.spark.decoding.ddl import data_type_of
from penstock.spark.decoding.json_text import JsonDecoder
from penstock.spark.errors import BadOption

ORDER = (
    "id BIGINT NOT NULL, name STRING, price DOUBLE, paid BOOLEAN, tags ARRAY<STRING>, at TIMESTAMP, on DATE, "
    "buyer STRUCT<age: INT, vip: BOOLEAN>"
)
MAYBE_TEXT = st.none() | st.text(max_size=8)
ORDERS = st.fixed_dictionaries(
    {"id": st.integers(-(2**63), 2**63 - 1)},
    optional={
        "name": MAYBE_TEXT,
        "price": st.none() | st.floats(allow_nan=False) | st.integers(-1000, 1000),
        "paid": st.none() | st.booleans(),
        "tags": st.none() | st.lists(MAYBE_TEXT, max_size=3),
        "at": st.none() | st.datetimes().map(lambda moment: moment.isoformat() + "Z"),
        "on": st.none() | st.dates().map(str),
        "buyer": st.none()
        | st.fixed_dictionaries({}, optional={"age": st.integers(-9, 9), "more": MAYBE_TEXT}),
        "unknown": st.recursive(MAYBE_TEXT | st.floats(), st.lists, max_leaves=4),
    },
)
PIECES = [b'{"id":1}', b'{"id":2', b',"name":"x"}', b"{}{", b"}", b'{"id":3}{"id":4}', b"", b" "]


def column(values: list[bytes | None]) -> pa.Array:
    return pa.array(values, pa.binary())


def decode(schema: str | DataType, *values: bytes | None) -> Decoded:
    decoder = JsonDecoder(data_type_of(schema) if isinstance(schema, str) else schema)
    decoded = decoder.decode(column(list(values)))
    assert decoded.values.type == decoder.arrow_type
    decoded.values.validate(full=True)
    assert len(decoded.values) == len(values)
    return decoded


def slowly(schema: str, values: list[bytes]) -> Decoded:
    """With one more row that the fast reader cannot read, which is removed afterwards."""
    decoded = decode(schema, *values, b"?")
    assert decoded.bad[-1].row == len(values)
    return Decoded(decoded.values[:-1], decoded.bad[:-1])


@settings(deadline=None)
@given(st.lists(ORDERS, min_size=1, max_size=8), st.booleans())
def test_both_readers_read_what_was_written(orders: list[dict[str, Any]], escaped: bool) -> None:
    texts = [json.dumps(order, ensure_ascii=escaped, allow_nan=True) for order in orders]
    values = [text.encode(errors="replace") for text in texts]

    quick, slow = decode(ORDER, *values), slowly(ORDER, values)

    assert quick.bad == slow.bad == []
    assert quick.values.to_pylist() == slow.values.to_pylist()
    for order, row in zip(orders, quick.values.to_pylist(), strict=True):
        assert row["id"] == order["id"]
        assert row["paid"] == order.get("paid")
        assert (row["on"] and str(row["on"])) == order.get("on")


@settings(deadline=None)
@given(st.lists(ORDERS, min_size=1, max_size=5), st.data())
def test_a_damaged_value_affects_only_its_row(orders: list[dict[str, Any]], data: st.DataObject) -> None:
    values = [json.dumps(order).encode() for order in orders]
    row = data.draw(st.integers(0, len(values) - 1))
    cut = data.draw(st.integers(0, len(values[row]) - 1))
    damaged = list(values)
    damaged[row] = values[row][:cut] + data.draw(st.binary(max_size=3)) + values[row][cut + 1 :]

    before, after = decode(ORDER, *values), decode(ORDER, *damaged)

    assert {bad.row for bad in after.bad} <= {row}
    for index in range(len(values)):
        if index != row:
            assert after.values[index].as_py() == before.values[index].as_py()


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [b'{"id":1}', b'{"id":2', b',"name":"x"}', b"{}{", b"}", b'{"id":3}{"id":4}', b"", b" "]
        )
    )
)
def test_fragments_of_objects_in_several_rows_are_bad(pieces: list[bytes]) -> None:
    decoded = decode("id BIGINT", *pieces)

    whole = [row for row, piece in enumerate(pieces) if piece == b'{"id":1}']
    assert [row for row, value in enumerate(decoded.values.to_pylist()) if value] == whole
    assert [bad.row for bad in decoded.bad] == [row for row in range(len(pieces)) if row not in whole]


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ("id BIGINT", b'{"id":"x"}', "Expected `int | null`, got `str` - at `$.id`"),
        ("id INT", b'{"id":3000000000}', "2147483647"),
        ("id INT NOT NULL", b"{}", "missing required field `id`"),
        ("id INT NOT NULL", b'{"id":null}', "got `null` - at `$.id`"),
        ("price DECIMAL(4,2)", b'{"price":1.555}', "price: Rescaling Decimal"),
        ("on DATE", b'{"on":"yesterday"}', "yesterday"),
        ("at TIMESTAMP_NTZ", b'{"at":"2024-01-01T00:00:00Z"}', "has a time zone"),
        ("id BIGINT", b"[1]", "Expected `object`, got `array`"),
        ("name STRING", b'{"name":"\xff"}', "utf-8"),
    ],
)
def test_a_bad_row_has_a_reason(schema: str, value: bytes, message: str) -> None:
    decoded = decode(schema, b"{}" if "NOT NULL" not in schema else b'{"id":1}', value)

    assert [bad.row for bad in decoded.bad] == [1]
    assert message in decoded.bad[0].reason
    assert decoded.values[1].as_py() is None


def test_maps_bytes_and_decimals_are_read_row_by_row() -> None:
    decoded = decode(
        "counts MAP<STRING, INT>, raw BINARY, price DECIMAL(10,2)",
        b'{"counts": {"a": 1, "b": null}, "raw": "YWI=", "price": "1.5"}',
        None,
        b'{"price": 2}\n',
    )

    assert decoded.bad == []
    rows = decoded.values.to_pylist()
    assert rows[0]["counts"] == [("a", 1), ("b", None)]
    assert rows[0]["raw"] == b"ab"
    assert str(rows[0]["price"]) == "1.50"
    assert rows[1] is None
    assert str(rows[2]["price"]) == "2.00"


def test_a_value_need_not_be_an_object() -> None:
    assert decode("ARRAY<INT>", b"[1, null]", b"[]").values.to_pylist() == [[1, None], []]
    assert decode("BIGINT", b"7", b"null").bad[0].row == 1


def test_a_slice_of_a_column_is_read_within_its_bounds() -> None:
    whole = column([b"x", b'{"id":1}', b'{"id":2}', b"y"])

    decoded = JsonDecoder(data_type_of("id BIGINT")).decode(whole.slice(1, 2))

    assert decoded.values.to_pylist() == [{"id": 1}, {"id": 2}]


def test_an_empty_column_is_empty() -> None:
    assert len(decode("id BIGINT").values) == 0


def test_a_decoder_can_be_pickled() -> None:
    decoder = JsonDecoder(data_type_of(ORDER))
    decoder.decode(column([b"{}"]))

    again = pickle.loads(pickle.dumps(decoder))

    assert again.decode(column([b'{"id":1}'])).values[0].as_py()["id"] == 1


@pytest.mark.parametrize("schema", ["MAP<INT, STRING>", "a ARRAY<MAP<BIGINT, INT>>"])
def test_types_that_json_lacks_are_rejected(schema: str) -> None:
    with pytest.raises(BadOption, match="keys in JSON are strings"):
        JsonDecoder(data_type_of(schema))
