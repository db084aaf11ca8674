"""Arguments of the wrong type: the error names the argument, what was given and what is expected."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from penstock import Admin, aio, errors
from penstock.admin import ConfigResource, NewTopic
from penstock.client.argument_types import (
    _alternatives,
    _declared,
    _is_list,
    argument,
    described,
    quoted,
    shown,
)
from penstock.client.cluster import TopicPartition

CALLS = [
    getattr(aio.Admin, name).__wrapped__
    for name in dir(Admin)
    if hasattr(getattr(aio.Admin, name, None), "__wrapped__")
]
PARAMETERS = [
    pytest.param(name, hint, id=f"{call.__name__}-{name}")
    for call in CALLS
    for name, hint in _declared(call)[1].items()
]
LISTS = [each for each in PARAMETERS if any(map(_is_list, _alternatives(each.values[1])))]


def test_every_call_of_admin_is_covered() -> None:
    assert len(CALLS) > 60
    assert len(LISTS) > 20


@pytest.mark.parametrize(("name", "hint"), PARAMETERS)
def test_every_argument_of_admin_is_checked(name: str, hint: Any) -> None:
    with pytest.raises(errors.BadArgumentType, match=rf"^{name} must be .+, not the _Other"):
        argument(_Other(), hint, name)


@pytest.mark.parametrize(("name", "hint"), LISTS)
def test_a_string_is_not_a_list_of_its_letters(name: str, hint: Any) -> None:
    """delete_topics("xyz") deleted the topics x, y and z."""
    with pytest.raises(TypeError, match=r"must be a list of .*, not the string 'xyz'"):
        argument("xyz", hint, name)


@pytest.mark.parametrize(
    ("call", "arguments", "message"),
    [
        ("delete_topics", ("xyz",), "names must be a list of strings, not the string 'xyz'; write ['xyz']"),
        ("delete_topics", ([b"x"],), "names[0] must be a string, not bytes b'x'"),
        (
            "create_topics",
            ("xyz",),
            "topics must be a list of NewTopic or a string, not the string 'xyz'; write ['xyz']",
        ),
        ("describe_topics", ("xyz",), "write ['xyz']"),
        ("describe_topic", (None,), "name must be a string, not None"),
        ("delete_groups", ("xyz",), "write ['xyz']"),
        ("topic_offsets", ("xyz",), "write ['xyz']"),
        ("list_group_offsets", ("billing", ("orders", 0)), "write [('orders', 0)]"),
        ("alter_config", ("orders", {}), "write ConfigResource.topic('orders')"),
        (
            "alter_config",
            (ConfigResource.topic("orders"), "retention.ms=1"),
            "set must be a mapping of strings to values",
        ),
        ("create_topic", ("orders", "3"), "partitions must be an integer, not the string '3'"),
        (
            "create_topics",
            ([NewTopic(name="orders", partitions="3")],),
            "topics[0].partitions must be an integer",
        ),  # type: ignore[arg-type]
        ("list_offsets", ({"orders": "latest"},), "a key of wanted must be"),
        ("create_partitions", ({"orders": "6"},), "totals['orders'] must be an integer or a NewPartitions"),
        ("complete_transaction", ("worker-7",), "prepared must be a PreparedTransaction"),
    ],
)
def test_the_error_shows_what_to_write(call: str, arguments: tuple[Any, ...], message: str) -> None:
    options = {"commit": True} if call == "complete_transaction" else {}
    with Admin("127.0.0.1:1") as admin, pytest.raises(errors.BadArgumentType) as raised:
        getattr(admin, call)(*arguments, **options)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("call", "arguments", "message"),
    [
        (
            "create_partitions",
            ("orders", 3),
            "create_partitions: too many positional arguments; it takes (totals, *,",
        ),
        (
            "list_topics",
            ("xyz",),
            "list_topics: too many positional arguments; it takes (*, include_internal=False",
        ),
    ],
)
def test_too_many_arguments_name_the_method_and_its_parameters(
    call: str, arguments: tuple[Any, ...], message: str
) -> None:
    with Admin("127.0.0.1:1") as admin, pytest.raises(TypeError) as raised:
        getattr(admin, call)(*arguments)
    assert message in str(raised.value)


def test_iterables_are_read_once_and_pairs_are_partitions() -> None:
    hint = Iterable[TopicPartition]

    taken = argument((("orders", index) for index in range(2)), hint, "partitions")

    assert taken == [TopicPartition("orders", 0), TopicPartition("orders", 1)]
    assert all(type(each) is TopicPartition for each in taken)
    assert argument({"b": 1, "a": 2}.keys(), Iterable[str], "names") == ["b", "a"]


def test_bools_are_not_numbers_and_other_integers_are_accepted() -> None:
    class Integer:
        def __index__(self) -> int:
            return 7

    assert argument(Integer(), int, "partitions") == 7
    for wrong in (True, 1.5, "1"):
        with pytest.raises(errors.BadArgumentType):
            argument(wrong, int, "partitions")
    assert argument(1, float, "rate") == 1


def test_the_types_of_a_class_are_resolved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were resolved again for each object, which took longer than the check itself."""
    resolved = []
    get_type_hints = typing.get_type_hints
    monkeypatch.setattr(typing, "get_type_hints", lambda cls: resolved.append(cls) or get_type_hints(cls))

    argument([_Point(index, index) for index in range(200)], Iterable[_Point], "points")

    assert resolved == [_Point]


def test_values_in_an_error_message() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise ValueError

    assert [shown(each) for each in ("a", 1, 1.5, True, b"a", None, ["a "])] == [
        "the string 'a'",
        "the integer 1",
        "the number 1.5",
        "the bool True",
        "bytes b'a'",
        "None",
        "the list ['a ']",
    ]
    assert quoted("x" * 100, 10) == "'xxxxxxxx…"
    assert shown(Broken()) == "the Broken <Broken>"


def test_annotations_as_text() -> None:
    assert described(Mapping[TopicPartition, int]) == "a mapping of TopicPartition to integers"
    assert described(Iterable[str] | None) == "a list of strings"
    assert described(typing.Literal["a", 1]) == "'a' or 1"


@dataclass(frozen=True)
class _Point:
    x: int
    y: int


class _Other:
    """No call accepts it."""
