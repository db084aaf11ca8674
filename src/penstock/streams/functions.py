"""Functions of users: whether they want the key, and of what type their result is.

A function that is given to an operator takes what the operator is about (a value; two values in a join; an aggregate
and a value in a fold), and may take the key before that. Which of the two is seen by how many arguments it must
have, here and once, when the topology is built.

Types come from annotations and from a few functions of the standard library; where neither tells, nothing is guessed.
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

KEY_LETTERS_MAX = 200  # of a key that is shown with an error
_KEY_NOTE = "of a record with the key "

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

# Functions that do not tell what they return, though everybody knows.
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
    """A user's function. Calling this with the key first is right for both kinds."""

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
        """As it is shown to people."""
        call = self.call
        while isinstance(call, functools.partial):
            call = call.func
        if getattr(call, "__name__", "") == "<lambda>":
            return "lambda"
        return str(getattr(call, "__qualname__", None) or type(call).__name__).rpartition("<locals>.")[2]


def function_of(call: Callable[..., Any], what: str, *, values: int = 1) -> Function:
    """`call` as a function of so many values, with or without the key before them."""
    if not callable(call):
        raise TopologyError(f"{what} takes a function, and {call!r} is none")
    required, most = _arguments(call, values)
    if required <= values <= most:
        return Function(call, takes_key=False)
    if required <= values + 1 <= most:
        return Function(call, takes_key=True)
    wanted = "one argument" if values == 1 else f"{values} arguments"
    raise TopologyError(
        f"{what} takes a function of {wanted}, or of one more if it wants the key first; "
        f"{Function(call, False).label} must have {required}"
    )


def result_type(call: Callable[..., Any]) -> Any:
    """The type that a function returns, by its annotation; None where nobody has said."""
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
        # An annotation that cannot be evaluated here (a local name, a missing import) tells nothing.
        return None
    return found if _is_concrete(found) else None


def element_type(kind: Any) -> Any:
    """Of a list, an iterator or any other iterable type: the type of what it gives."""
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
    """Of `tuple[K, V]`: K and V; otherwise nothing is known of either."""
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is tuple and len(arguments) == 2 and arguments[1] is not Ellipsis:
        key, value = (argument if _is_concrete(argument) else None for argument in arguments)
        return key, value
    return None, None


def _is_concrete(kind: Any) -> bool:
    return kind not in (None, type(None), Any, object) and not isinstance(kind, typing.TypeVar)


def _arguments(call: Callable[..., Any], values: int) -> tuple[int, int]:
    """How many positional arguments there must be, and how many there may be."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):  # some functions written in C do not tell; they get values alone
        return values, values
    positional = [parameter for parameter in parameters if parameter.kind in _POSITIONAL]
    required = sum(parameter.default is inspect.Parameter.empty for parameter in positional)
    if any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters):
        return required, max(values, required)
    return required, len(positional)


def _note_key(error: Exception, key: Any) -> None:
    """Instead of what was noted before: a program may raise one and the same error again and again."""
    others = [note for note in getattr(error, "__notes__", ()) if not str(note).startswith(_KEY_NOTE)]
    error.__notes__ = [*others, f"{_KEY_NOTE}{quoted(key, KEY_LETTERS_MAX)}"]


def key_told(error: BaseException) -> str | None:
    """The key of the record for which a function failed, as it is shown; None where nobody has noted it."""
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, str) and note.startswith(_KEY_NOTE):
            return note.removeprefix(_KEY_NOTE)
    return None


def itself(value: Any) -> Any:
    """The function behind `group_by_value`: a compiler may know it by identity."""
    return value
