"""The notation in which messages are declared: one class per message, with the fields of all its versions.

    @request(key=12, versions=(0, 4), flexible=4)
    class HeartbeatRequest:
        group_id: str
        group_instance_id: str | None = field(since=3, default=None)

The decorators turn the class into a keyword-only, slotted, mutable dataclass with a `Declaration`. Importing a message
module is cheap, because most classes of a process are never used: the first instance makes the constructor, and
`penstock.protocol.plan` resolves the annotations when a codec is first used. `penstock.protocol.codec` is where the
reader goes next.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast, dataclass_transform, overload

__all__ = [
    "NEVER",
    "Declaration",
    "FieldOptions",
    "Kind",
    "declaration_of",
    "field",
    "message",
    "record",
    "request",
    "response",
    "struct",
]

T = TypeVar("T")

NEVER: Final = 1 << 15
"""A version that no message reaches (versions are int16): `flexible=NEVER`, `flexible_since=NEVER`."""


class Missing(enum.Enum):
    """The default of a field without a default."""

    MISSING = enum.auto()


@dataclass(frozen=True, slots=True)
class FieldOptions:
    """What a declaration says about a field, in addition to its type."""

    since: int = 0
    """The first version that has the field."""
    until: int = NEVER
    """The last version that has the field."""
    default: object = Missing.MISSING
    nullable_since: int = 0
    """The first version in which a field declared `X | None` may be null."""
    tag: int | None = None
    tagged_since: int = 0
    """The first version in which the field is tagged; only with `tag`."""
    flexible_since: int | None = None
    """The first version with compact lengths for this field, if it differs from the message's."""
    ignorable: bool = False
    """Whether versions without the field drop its value silently."""

    @property
    def has_default(self) -> bool:
        return self.default is not Missing.MISSING

    def make_default(self) -> Any:
        """A new default: a message owns its lists and structs."""
        if isinstance(self.default, list) or hasattr(self.default, "__declaration__"):
            return type(self.default)()
        return self.default


@overload
def field(
    *,
    default: T,
    since: int = ...,
    until: int = ...,
    nullable_since: int = ...,
    tag: int | None = ...,
    tagged_since: int | None = ...,
    flexible_since: int | None = ...,
    ignorable: bool = ...,
) -> T: ...


@overload
def field(*, nullable_since: int = ..., flexible_since: int | None = ..., ignorable: bool = ...) -> Any: ...


def field(
    *,
    since: int = 0,
    until: int = NEVER,
    default: object = Missing.MISSING,
    nullable_since: int = 0,
    tag: int | None = None,
    tagged_since: int | None = None,
    flexible_since: int | None = None,
    ignorable: bool = False,
) -> Any:
    """Options of a field, see `FieldOptions`. A list or struct default is created anew for each message.

    A field with a tag is tagged in every version that has it, unless `tagged_since` says otherwise.
    """
    options = FieldOptions(
        since=since,
        until=until,
        default=default,
        nullable_since=nullable_since,
        tag=tag,
        tagged_since=since if tagged_since is None else tagged_since,
        flexible_since=flexible_since,
        ignorable=ignorable,
    )
    if not options.has_default and (since > 0 or until < NEVER or tag is not None):
        raise TypeError("a field that some versions lack needs a default")
    if (isinstance(default, list) or hasattr(default, "__declaration__")) and default != type(default)():
        raise TypeError("the default of a list or struct is an empty list, a struct of defaults, or None")
    return options


class Kind(enum.Enum):
    REQUEST = enum.auto()
    RESPONSE = enum.auto()
    RECORD = enum.auto()
    MESSAGE = enum.auto()
    """Anything else with versions: headers, and data inside bytes fields."""
    STRUCT = enum.auto()
    """A part of a message, with the message's version."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """The arguments of a decorator."""

    kind: Kind
    first_version: int
    last_version: int
    flexible_version: int
    """The first flexible version (KIP-482), or NEVER."""
    fields: dict[str, FieldOptions]
    key: int | None = None
    """The API key of a request or response, or the type of a record."""

    @property
    def versions(self) -> range:
        return range(self.first_version, self.last_version + 1)

    def is_flexible(self, version: int) -> bool:
        return version >= self.flexible_version


def declaration_of(cls: type) -> Declaration:
    """The declaration of a message class; TypeError for any other class."""
    declaration = cls.__dict__.get("__declaration__")
    if not isinstance(declaration, Declaration):
        raise TypeError(f"{cls.__qualname__} is not a declared message")
    return declaration


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def request(*, key: int, versions: tuple[int, int], flexible: int = NEVER) -> Callable[[type[T]], type[T]]:
    """Declare the request of an API; `flexible` is its first flexible version."""
    return _decorator(Kind.REQUEST, versions, flexible, key)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def response(*, to: type) -> Callable[[type[T]], type[T]]:
    """Declare the response to a request; key and versions are the request's."""
    asked = declaration_of(to)
    versions = (asked.first_version, asked.last_version)
    return _decorator(Kind.RESPONSE, versions, asked.flexible_version, asked.key)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def record(
    *, key: int | None = None, versions: tuple[int, int], flexible: int = NEVER
) -> Callable[[type[T]], type[T]]:
    """Declare a record of the metadata log or of a coordinator's log."""
    return _decorator(Kind.RECORD, versions, flexible, key)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def message(*, versions: tuple[int, int], flexible: int = NEVER) -> Callable[[type[T]], type[T]]:
    """Declare a header, or data inside a bytes field."""
    return _decorator(Kind.MESSAGE, versions, flexible, None)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def struct(cls: type[T]) -> type[T]:
    """Declare a part of a message, before its first use; it has the versions of the message."""
    return _declare(cls, Kind.STRUCT, (0, NEVER), NEVER, None)


def _decorator(
    kind: Kind, versions: tuple[int, int], flexible: int, key: int | None
) -> Callable[[type[T]], type[T]]:
    return lambda cls: _declare(cls, kind, versions, flexible, key)


def _declare(cls: type[T], kind: Kind, versions: tuple[int, int], flexible: int, key: int | None) -> type[T]:
    first, last = versions
    if not 0 <= first <= last:
        raise TypeError(f"{cls.__qualname__}: versions {versions} do not form a range")
    fields = {name: _field_options(cls, name) for name in inspect.get_annotations(cls)}
    namespace = {name: value for name, value in vars(cls).items() if name not in fields}
    for made_for_each_class in ("__dict__", "__weakref__"):
        namespace.pop(made_for_each_class, None)
    namespace |= {
        "__slots__": tuple(fields),
        "__declaration__": Declaration(kind, first, last, flexible, fields, key),
        "__dataclass_fields__": _DataclassFields(),
        "__init__": _initialize,
        "__eq__": _equal,
        "__repr__": _represent,
        "__hash__": None,
        "__qualname__": cls.__qualname__,
    }
    return cast("type[T]", type(cls.__name__, cls.__bases__, namespace))


def _field_options(cls: type, name: str) -> FieldOptions:
    stated = cls.__dict__.get(name, Missing.MISSING)
    return stated if isinstance(stated, FieldOptions) else FieldOptions(default=stated)


def _initialize(self: Any, *arguments: object, **values: object) -> None:
    """The constructor until the first call: making the real one takes ten times as long as declaring a class."""
    _make_dataclass(type(self))
    self.__init__(*arguments, **values)


class _DataclassFields:
    """`__dataclass_fields__` until something reads it, such as `dataclasses.replace` of a decoded message."""

    def __get__(self, instance: object, owner: type) -> object:
        _make_dataclass(owner)
        return owner.__dict__["__dataclass_fields__"]


def _make_dataclass(cls: Any) -> None:
    """Complete a class with what `dataclasses` makes of one with the same fields."""
    namespace = {name: getattr(cls, name) for name in ("__annotations__", "__module__", "__qualname__")}
    namespace["__doc__"] = "A docstring, so that `dataclasses` does not make one."
    for name, options in declaration_of(cls).fields.items():
        if options.has_default:
            is_shared = options.make_default() is options.default
            namespace[name] = (
                options.default if is_shared else dataclasses.field(default_factory=type(options.default))
            )
    made: Any = dataclass(kw_only=True, eq=False, repr=False, match_args=False)(
        type(cls.__name__, (), namespace)
    )
    for name in ("__init__", "__dataclass_fields__", "__dataclass_params__"):
        setattr(cls, name, made.__dict__[name])


def _equal(self: Any, other: object) -> bool:
    return type(self) is type(other) and all(
        getattr(self, name) == getattr(other, name) for name in declaration_of(type(self)).fields
    )


def _represent(self: Any) -> str:
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in declaration_of(type(self)).fields)
    return f"{type(self).__qualname__}({values})"
