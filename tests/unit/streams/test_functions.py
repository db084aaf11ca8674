"""User functions: with or without the key, and their return types."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.streams.functions import element_type, function_of, pair_types, result_type
from penstock.streams.nouns import TopologyError


def upper(value: str) -> str:
    return value.upper()


def with_key(key: str, value: str) -> tuple[str, int]:
    return key, len(value)


def words(value: str) -> Iterator[str]:
    yield from value.split()


def anything(value: Any) -> Any:
    return value


class Callable1:
    def __call__(self, value: str) -> int:
        return len(value)


@pytest.mark.parametrize(
    ("call", "values", "takes_key"),
    [
        (upper, 1, False),
        (with_key, 1, True),
        (with_key, 2, False),
        (str.split, 1, False),
        (len, 1, False),
        (print, 1, False),
        (max, 2, False),
        (lambda value, extra=None: value, 1, False),
        (lambda key, one, two: one, 2, True),
        (functools.partial(with_key, "k"), 1, False),
        (Callable1(), 1, False),
        (int, 1, False),
    ],
)
def test_a_function_with_one_more_argument_gets_the_key(call: Any, values: int, takes_key: bool) -> None:
    assert function_of(call, "map", values=values).takes_key == takes_key


def test_a_function_without_a_key_argument_does_not_get_the_key() -> None:
    assert function_of(upper, "map")("key", "value") == "VALUE"
    assert function_of(with_key, "map")("key", "value") == ("key", 5)


@pytest.mark.parametrize("call", [lambda: 1, lambda a, b, c: a, 5, None])
def test_a_function_with_the_wrong_number_of_arguments_is_rejected(call: Any) -> None:
    with pytest.raises(TopologyError, match="map takes a function"):
        function_of(call, "map")


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (upper, str),
        (with_key, tuple[str, int]),
        (str.split, list[str]),
        (len, int),
        (int, int),
        (Callable1(), int),
        (functools.partial(with_key, "k"), tuple[str, int]),
        (lambda value: value, None),
        (anything, None),
        (print, None),
    ],
)
def test_the_return_type_comes_from_the_annotation(call: Any, kind: Any) -> None:
    assert result_type(call) == kind


def test_element_and_pair_types_are_inferred() -> None:
    assert element_type(result_type(words)) is str
    assert element_type(list[int]) is int
    assert element_type(tuple[int, ...]) is int
    assert element_type(tuple[int, str]) is None
    assert element_type(list) is None
    assert element_type(None) is None
    assert pair_types(tuple[str, int]) == (str, int)
    assert pair_types(tuple[str, ...]) == (None, None)
    assert pair_types(tuple[Any, int]) == (None, int)
    assert pair_types(None) == (None, None)


def test_a_function_is_shown_by_its_name() -> None:
    assert function_of(functools.partial(with_key, "k"), "map").label == "with_key"
    assert function_of(str.split, "map").label == "str.split"
    assert function_of(Callable1(), "map").label == "Callable1"
