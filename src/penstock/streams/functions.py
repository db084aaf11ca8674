"""User functions: whether they take the key, and the type of their result.

A function passed to an operator takes the operator's values (one value; two in a join; aggregate and value in a
fold), optionally preceded by the key. The number of its required arguments decides which, once, when the topology is
built.

Types come from annotations and from a few functions of the standard library. Otherwise the type is unknown.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.client.argument_types import quoted
from penstock.streams.nouns import TopologyError

KEY_LETTERS_MAX = 200  # characters of a key in an error
_KEY_NOTE = "of a record with the key "

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

# Functions of the standard library without return annotations.
_KNOWN_RESULTS: dict[Any, Any] = {
    str.split: list[str],
    str.rsplit: list[str],
    str.splitlines: list[str],
    str.lower: str,
    str.upper: str,
    str.strip: str,
    str.lstrip: str,
    str.rstrip: str,
    str.title: str,
    str.capitalize: str,
    str.casefold: str,
    str.swapcase: str,
    str.encode: bytes,
    bytes.decode: str,
    bytes.split: list[bytes],
    len: int,
    str: str,
    int: int,
    float: float,
    bool: bool,
    bytes: bytes,
    repr: str,
    hash: int,
    ord: int,
    chr: str,
}


@dataclass(frozen=True, slots=True)
class Function:
    """A user function. It is always called with the key first, whether the function takes it or not."""

    call: Callable[..., Any]
    takes_key: bool

    def __call__(self, key: Any, *values: Any) -> Any:
        try:
            return self.call(key, *values) if self.takes_key else self.call(*values)
        except Exception as error:
            _note_key(error, key)
            raise

    @property
    def label(self) -> str:
        """The name shown to users."""
        call = self.call
        while isinstance(call, functools.partial):
            call = call.func
        if getattr(call, "__name__", "") == "<lambda>":
            return "lambda"
        return str(getattr(call, "__qualname__", None) or type(call).__name__).rpartition("<locals>.")[2]


def function_of(call: Callable[..., Any], what: str, *, values: int = 1) -> Function:
    """Wrap a function of `values` values, with or without the key before them."""
    if not callable(call):
        raise TopologyError(f"{what} takes a function, not {call!r}")
    required, most = _arguments(call, values)
    if required <= values <= most:
        return Function(call, takes_key=False)
    if required <= values + 1 <= most:
        return Function(call, takes_key=True)
    wanted = "one argument" if values == 1 else f"{values} arguments"
    raise TopologyError(
        f"{what} takes a function of {wanted}, or of one more with the key first; "
        f"{Function(call, False).label} requires {required}"
    )


def result_type(call: Callable[..., Any]) -> Any:
    """The return type of a function from its annotation; None if it is unknown."""
    try:
        known = _KNOWN_RESULTS.get(call)
    except TypeError:  # not hashable
        known = None
    if known is not None:
        return known
    if isinstance(call, type):
        return call
    subject = call
    while isinstance(subject, functools.partial):
        subject = subject.func
    if not hasattr(subject, "__annotations__") and callable(subject):
        subject = type(subject).__call__
    try:
        found = typing.get_type_hints(subject).get("return")
    except Exception:
        # The annotation cannot be evaluated here (a local name, a missing import), so the type is unknown.
        return None
    return found if _is_concrete(found) else None


def element_type(kind: Any) -> Any:
    """The element type of a list, iterator or other iterable type."""
    origin = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if not isinstance(origin, type) or not issubclass(origin, collections.abc.Iterable) or not arguments:
        return None
    if origin is tuple and not (len(arguments) == 2 and arguments[1] is Ellipsis):
        return None
    if issubclass(origin, collections.abc.Mapping):
        return arguments[0]
    return arguments[0] if _is_concrete(arguments[0]) else None


def pair_types(kind: Any) -> tuple[Any, Any]:
    """K and V of `tuple[K, V]`; None for each that is unknown."""
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is tuple and len(arguments) == 2 and arguments[1] is not Ellipsis:
        key, value = (argument if _is_concrete(argument) else None for argument in arguments)
        return key, value
    return None, None


def _is_concrete(kind: Any) -> bool:
    return kind not in (None, type(None), Any, object) and not isinstance(kind, typing.TypeVar)


def _arguments(call: Callable[..., Any], values: int) -> tuple[int, int]:
    """How many positional arguments a function requires, and how many it accepts."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):  # some C functions have no signature; they get the values only
        return values, values
    positional = [parameter for parameter in parameters if parameter.kind in _POSITIONAL]
    required = sum(parameter.default is inspect.Parameter.empty for parameter in positional)
    if any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters):
        return required, max(values, required)
    return required, len(positional)


def _note_key(error: Exception, key: Any) -> None:
    """Replaces an earlier note, because a program may raise the same error object repeatedly."""
    others = [note for note in getattr(error, "__notes__", ()) if not str(note).startswith(_KEY_NOTE)]
    error.__notes__ = [*others, f"{_KEY_NOTE}{quoted(key, KEY_LETTERS_MAX)}"]


def noted_key(error: BaseException) -> str | None:
    """The key of the record for which a function failed, as shown to users; None if it was not noted."""
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, str) and note.startswith(_KEY_NOTE):
            return note.removeprefix(_KEY_NOTE)
    return None


def itself(value: Any) -> Any:
    """The function of `group_by_value`; the compiler recognises it by identity."""
    return value
