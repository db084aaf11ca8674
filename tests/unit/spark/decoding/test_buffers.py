"""The bytes of a binary column."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.decoding.buffers import bytes_of, without_first


@given(st.lists(st.binary(min_size=2, max_size=6)), st.integers(0, 2), st.data())
def test_the_first_bytes_of_each_value_are_removed(
    values: list[bytes], count: int, data: st.DataObject
) -> None:
    begin = data.draw(st.integers(0, len(values)))
    column = pa.array(values, pa.binary()).slice(begin)

    shorter = without_first(column, count)

    shorter.validate(full=True)
    assert shorter.to_pylist() == [value[count:] for value in values[begin:]]
    every, offsets = bytes_of(column)
    assert bytes(every[offsets[0] : offsets[-1]]) == b"".join(values[begin:])
