"""Strings."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.spark.decoding.text import TextDecoder


@settings(deadline=None)
@given(st.lists(st.none() | st.text().map(str.encode) | st.binary(max_size=4)))
def test_utf8_is_text_and_other_bytes_are_bad(values: list[bytes | None]) -> None:
    decoded = TextDecoder().decode(pa.array(values, pa.binary()))

    expected: list[str | None] = []
    bad = []
    for row, value in enumerate(values):
        try:
            expected.append(None if value is None else value.decode())
        except UnicodeDecodeError as error:
            expected.append(None)
            bad.append((row, str(error), "UnicodeDecodeError"))
    assert decoded.values.to_pylist() == expected
    assert decoded.bad == bad
    assert decoded.values.type == pa.string()
