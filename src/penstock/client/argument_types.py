"""Checks the arguments of a call against its annotations, so that a wrong type is reported where it was passed.

    @checked
    async def delete_topics(self, names: Iterable[str]) -> ...        # delete_topics("xyz") raises BadArgumentType

The annotations are the only declaration. Without the check a string would count as a list of its letters, and other
mistakes would surface as an AttributeError somewhere inside. A pair is taken for a `TopicPartition`, and any iterable
is read once, into a list. What the annotations cannot say (ranges, names that exist) is checked elsewhere.

Hints are read at the first call, because resolving them at import time would make every program start later. `timeout`
is left to `deadlines`.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
import types
import typing
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, ParamSpec, SupportsIndex, TypeVar

from penstock.client.errors import BadArgumentType

P = ParamSpec("P")
R = TypeVar("R")
Method = Callable[P, Coroutine[Any, Any, R]]

PLAIN = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "a bool",
    bytes: "bytes",
    type(None): "None",
}
OF_VALUES = {str: "the string", int: "the integer", float: "the number", bool: "the bool", bytes: "bytes"}
UNCHECKED = frozenset({"self", "return", "timeout"})


def checked(method: Method[P, R]) -> Method[P, R]:
    """The method, with its arguments checked before it runs."""

    @functools.wraps(method)
    async def call(*given: P.args, **options: P.kwargs) -> R:
        signature, hints = _declared(method)
        try:
            bound = signature.bind(*given, **options)
        except TypeError as problem:
            raise TypeError(f"{method.__name__}: {problem}; it takes {_parameters(signature)}") from None
        for name, value in bound.arguments.items():
            if name in hints:
                bound.arguments[name] = argument(value, hints[name], name)
        return await method(*bound.args, **bound.kwargs)

    return call


def _parameters(signature: inspect.Signature) -> str:
    """As they are declared, without `self` and without types."""
    bare = [
        each.replace(annotation=each.empty) for each in signature.parameters.values() if each.name != "self"
    ]
    return str(inspect.Signature(bare))


@functools.cache
def _declared(method: Callable[..., object]) -> tuple[inspect.Signature, dict[str, Any]]:
    hints = typing.get_type_hints(method)
    return inspect.signature(method), {name: hints[name] for name in hints if name not in UNCHECKED}


def argument(given: object, hint: Any, name: str) -> Any:
    """The value given as `name`, converted to the annotation `hint`; BadArgumentType if it has another type."""
    try:
        return _take(given, hint, name)
    except _Mismatch as mismatch:
        raise BadArgumentType(mismatch.message()) from None


def shown(given: object) -> str:
    """A value in an error message: its type and a short form of it."""
    if given is None:
        return "None"
    kind = OF_VALUES.get(type(given), f"the {type(given).__name__}")
    return f"{kind} {quoted(given, 80)}"


def quoted(value: object, length_max: int = 60) -> str:
    """The `repr` of a value, shortened."""
    try:
        text = repr(value)
    except Exception:  # `repr` of a user's class failed; the error message is more important
        text = f"<{type(value).__name__}>"
    return text if len(text) <= length_max else f"{text[: length_max - 1]}…"


class _Mismatch(Exception):
    def __init__(self, path: str, hint: Any, given: object) -> None:
        self.path = path
        self.hint = hint
        self.given = given

    def message(self) -> str:
        return f"{self.path} must be {described(self.hint)}, not {shown(self.given)}{self._example()}"

    def _example(self) -> str:
        """How to write the value that was probably meant."""
        for hint in _alternatives(self.hint):
            if _is_list(hint) and isinstance(self.given, str | tuple):
                (item,) = typing.get_args(hint)
                if _fits(self.given, item):
                    return f"; write [{self.given!r}]"
            example = getattr(hint, "_example", None)
            if example is not None and isinstance(self.given, str):
                return f"; write {example(self.given)}"
        return ""


def _take(given: object, hint: Any, path: str) -> Any:
    if hint is Any or hint is object or isinstance(hint, TypeVar):
        return given
    alternatives = _alternatives(hint)
    if len(alternatives) > 1:
        return _take_one_of(given, hint, alternatives, path)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        fits = given in arguments
    elif _is_list(hint):
        return _take_list(given, hint, path)
    elif origin is not None and issubclass(origin, Mapping):
        return _take_mapping(given, hint, path)
    elif origin is tuple:
        fits = _is_tuple_of(given, arguments)
    elif hint is int:
        fits = isinstance(given, SupportsIndex) and not isinstance(given, bool)
        if isinstance(given, SupportsIndex) and not isinstance(given, int):
            given = operator.index(given)  # for example a number of numpy
    elif hint is float:
        fits = isinstance(given, int | float) and not isinstance(given, bool)
    elif hasattr(hint, "_fields") and not isinstance(given, hint):
        return _take_fields(given, hint, path)
    else:
        fits = isinstance(given, origin or hint)
        if fits and dataclasses.is_dataclass(given):
            _check_fields(given, path)
    if not fits:
        raise _Mismatch(path, hint, given)
    return given


def _take_one_of(given: object, hint: Any, alternatives: tuple[Any, ...], path: str) -> Any:
    nested: _Mismatch | None = None
    for each in alternatives:
        try:
            return _take(given, each, path)
        except _Mismatch as mismatch:
            if mismatch.path != path:  # the value fits, but something in it does not
                nested = nested or mismatch
    raise nested or _Mismatch(path, hint, given)


def _take_list(given: object, hint: Any, path: str) -> list[Any]:
    """A mapping counts as its keys, as usual in Python. A string or a named tuple does not count as a list."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable) or hasattr(given, "_fields"):
        raise _Mismatch(path, hint, given)
    (item,) = typing.get_args(hint)
    if isinstance(given, tuple) and given and _fits(given, item):  # one partition, not a list of them
        raise _Mismatch(path, hint, given)
    return [_take(each, item, f"{path}[{index}]") for index, each in enumerate(given)]


def _take_mapping(given: object, hint: Any, path: str) -> dict[Any, Any]:
    if not isinstance(given, Mapping):
        raise _Mismatch(path, hint, given)
    key, value = typing.get_args(hint)
    return {
        _take(each, key, f"a key of {path}"): _take(of_it, value, f"{path}[{each!r}]")
        for each, of_it in given.items()
    }


def _take_fields(given: object, hint: Any, path: str) -> Any:
    """Convert a plain tuple to a named tuple."""
    fields = _fields(hint)
    if (
        not isinstance(given, tuple | list)
        or len(given) != len(fields)
        or not all(map(_fits, given, fields.values()))
    ):
        raise _Mismatch(path, hint, given)
    return hint(*given)


def _check_fields(given: Any, path: str) -> None:
    hints = _fields(given.__class__)
    for field in dataclasses.fields(given):
        _take(getattr(given, field.name), hints[field.name], f"{path}.{field.name}")


@functools.cache
def _fields(cls: type) -> dict[str, Any]:
    """The annotations of a class, cached: resolving them takes longer than checking a value."""
    return typing.get_type_hints(cls)


def _fits(given: object, hint: Any) -> bool:
    try:
        _take(given, hint, "")
    except _Mismatch:
        return False
    return True


def _is_tuple_of(given: object, hints: tuple[Any, ...]) -> bool:
    if not isinstance(given, tuple):
        return False
    if len(hints) == 2 and hints[1] is Ellipsis:
        return all(_fits(each, hints[0]) for each in given)
    return len(given) == len(hints) and all(map(_fits, given, hints))


def _alternatives(hint: Any) -> tuple[Any, ...]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.get_args(hint)
    return (hint,)


def _is_list(hint: Any) -> bool:
    origin = typing.get_origin(hint)
    return isinstance(origin, type) and issubclass(origin, Iterable) and len(typing.get_args(hint)) == 1


def described(hint: Any) -> str:
    """An annotation as text."""
    alternatives = [each for each in _alternatives(hint) if each is not type(None)] or [type(None)]
    if len(alternatives) > 1:
        named = [
            each for each in alternatives if "tuple[" not in str(each)
        ]  # pairs are only another way to write it
        return " or ".join(dict.fromkeys(map(described, named or alternatives)))
    (hint,) = alternatives
    arguments = typing.get_args(hint)
    if _is_list(hint):
        return f"a list of {_plural(arguments[0])}"
    if typing.get_origin(hint) is typing.Literal:
        return " or ".join(map(repr, arguments))
    if len(arguments) == 2 and issubclass(typing.get_origin(hint), Mapping):
        return f"a mapping of {_plural(arguments[0])} to {_plural(arguments[1])}"
    name = getattr(hint, "__name__", str(hint))
    return PLAIN.get(hint, f"{'an' if name[0] in 'AEIOU' else 'a'} {name}")


def _plural(hint: Any) -> str:
    plurals = {str: "strings", int: "integers", float: "numbers", object: "values"}
    return plurals.get(hint) or described(hint).removeprefix("a ").removeprefix("an ")
