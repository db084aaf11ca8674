"""Arrow kernels return what their functions return."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow
import pytest

from penstock.streams.compile.kernels import _MAPPING, flattening_kernel, mapping_kernel

# All cased letters and spaces, and some other characters.
CODES = [*range(0x3100), *range(0x3100, sys.maxunicode + 1, 97), *range(0x1E900, 0x1E944)]
CHARACTERS = [chr(code) for code in CODES if not 0xD800 <= code < 0xE000]
TEXTS = [
    *CHARACTERS,
    *(f"{character}a {character}B{character}" for character in CHARACTERS[:0x3100:5]),
    "",
    " ",
    "  two  words ",
]
SAMPLES: dict[pyarrow.DataType, list[Any]] = {
    pyarrow.string(): TEXTS,
    pyarrow.binary(): [b"", b"a", b"\x00\xff"],
    pyarrow.int64(): [0, 1, -1, 2**62, -(2**63)],
    pyarrow.float64(): [0.0, -1.5, 1e300],
    pyarrow.bool_(): [True, False],
}


@pytest.mark.parametrize(
    ("function", "kind"), _MAPPING, ids=lambda each: str(getattr(each, "__qualname__", each))
)
def test_a_kernel_equals_its_function(function: Any, kind: pyarrow.DataType) -> None:
    kernel = mapping_kernel(function, kind)
    assert kernel is not None
    values = SAMPLES[kind]
    plain = [value for value in values if not isinstance(value, str) or value.isascii()]

    for sample in (values, plain):
        found = kernel(pyarrow.array(sample, kind))
        if found is not None:
            assert found.to_pylist() == [function(value) for value in sample]
    assert kernel(pyarrow.array(plain, kind)) is not None


def test_split_returns_the_words_of_each_line_in_order() -> None:
    kernel = flattening_kernel(str.split, pyarrow.string())
    assert kernel is not None

    flattened = kernel(pyarrow.array(TEXTS))

    right = [(row, word) for row, text in enumerate(TEXTS) for word in text.split()]
    assert list(zip(flattened.rows.tolist(), flattened.values.to_pylist(), strict=True)) == right


def test_a_user_function_has_no_kernel() -> None:
    assert mapping_kernel(lambda value: value, pyarrow.string()) is None
    assert flattening_kernel(str.split, pyarrow.binary()) is None
