"""Functions of the standard library with Arrow kernels: whole columns instead of values.

A kernel must return exactly what its function returns for every value of the type, or None for a column with values
for which they differ. A test compares them over all characters.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy
import pyarrow
import pyarrow.compute as pc

Kernel = Callable[[pyarrow.Array], "pyarrow.Array | None"]


def mapping_kernel(function: Any, kind: pyarrow.DataType) -> Kernel | None:
    """For functions that return one value."""
    return _found(_MAPPING, function, kind)


def flattening_kernel(function: Any, kind: pyarrow.DataType) -> Callable[[pyarrow.Array], Flattened] | None:
    """For functions that return any number of values."""
    if function in (str.split, str.splitlines) and not pyarrow.types.is_string(kind):
        return None
    return _split if function is str.split else None


class Flattened:
    """All values in sequence, and the row of each."""

    def __init__(self, values: pyarrow.Array, rows: numpy.ndarray[Any, numpy.dtype[numpy.int64]]) -> None:
        self.values = values
        self.rows = rows


def _split(column: pyarrow.Array) -> Flattened:
    """`str.split`: Arrow returns an empty string where a line starts or ends with space."""
    lists = pc.utf8_split_whitespace(column)
    words = lists.flatten()
    rows = pc.list_parent_indices(lists)
    is_word = pc.not_equal(pc.binary_length(words), 0)
    if pc.all(is_word).as_py() is False:
        words, rows = words.filter(is_word), rows.filter(is_word)
    return Flattened(words, numpy.asarray(rows).astype(numpy.int64, copy=False))


def _only_ascii(kernel: Callable[[pyarrow.Array], pyarrow.Array]) -> Kernel:
    """Beyond ASCII Arrow converts single characters, while Python considers context and ligatures."""

    def apply(column: pyarrow.Array) -> pyarrow.Array | None:
        is_ascii = pc.all(pc.string_is_ascii(column)).as_py()
        return kernel(column) if is_ascii in (True, None) else None

    return apply


def _length(column: pyarrow.Array) -> pyarrow.Array:
    length = pc.utf8_length if pyarrow.types.is_string(column.type) else pc.binary_length
    return length(column).cast(pyarrow.int64())


_TEXT = pyarrow.string()
_MAPPING: dict[tuple[Any, pyarrow.DataType], Kernel] = {
    (str.lower, _TEXT): _only_ascii(pc.ascii_lower),
    (str.upper, _TEXT): _only_ascii(pc.ascii_upper),
    (str.swapcase, _TEXT): _only_ascii(pc.ascii_swapcase),
    (str.strip, _TEXT): pc.utf8_trim_whitespace,
    (str.lstrip, _TEXT): pc.utf8_ltrim_whitespace,
    (str.rstrip, _TEXT): pc.utf8_rtrim_whitespace,
    (len, _TEXT): _length,
    (len, pyarrow.binary()): _length,
    (str, _TEXT): lambda column: column,
    (bytes, pyarrow.binary()): lambda column: column,
    (int, pyarrow.int64()): lambda column: column,
    (float, pyarrow.float64()): lambda column: column,
    (str, pyarrow.int64()): lambda column: column.cast(_TEXT),
    (float, pyarrow.int64()): lambda column: column.cast(pyarrow.float64(), safe=False),
    (operator.neg, pyarrow.float64()): pc.negate,
    (str.isdigit, _TEXT): _only_ascii(pc.ascii_is_decimal),
    (str.isalpha, _TEXT): _only_ascii(pc.ascii_is_alpha),
    (str.isalnum, _TEXT): _only_ascii(pc.ascii_is_alnum),
    (bool, _TEXT): lambda column: pc.not_equal(pc.binary_length(column), 0),
    (bool, pyarrow.int64()): lambda column: pc.not_equal(column, 0),
    (bool, pyarrow.bool_()): lambda column: column,
}


def _found(table: dict[tuple[Any, pyarrow.DataType], Kernel], function: Any, kind: Any) -> Kernel | None:
    try:
        return table.get((function, kind))
    except TypeError:  # an unhashable function is none of these
        return None
