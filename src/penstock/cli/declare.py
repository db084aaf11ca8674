"""How a command is declared: once, on the function that does it.

    @topics.command("create", examples=["penstock topics create orders --partitions 6"])
    def create(
        name: Annotated[str, Argument(help="Its name.")],
        *,
        connection: Connection,
        output: Output,
        partitions: Annotated[int | None, Option("--partitions", "-p", help="How many.", minimum=1)] = None,
    ) -> None:
        '''Create a topic.'''

Two readers work from that declaration: `reading`, which understands a line that is in order within a millisecond,
and `app`, which gives it to typer for help and for words about what is not in order. Importing this module must
stay cheap, and a command's module imports what it works with inside its functions: every line that anyone types
comes by here.

A parameter whose type is a NamedTuple is a bundle: its fields are options too (`connection.Connection`,
`output.Output`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

Work = Callable[..., int | None]
AnyWork = TypeVar("AnyWork", bound=Work)

REQUIRED: Final = object()  # the default of what has none


class Option:
    """Something said by name. A `bool` is a switch; a list may be said several times.

    `aliases` are older names, or those of other commands: they work, and neither help nor completion shows them.
    """

    __slots__ = ("aliases", "complete", "env", "help", "is_hidden", "maximum", "metavar", "minimum", "names")

    def __init__(
        self,
        *names: str,
        help: str,
        aliases: tuple[str, ...] = (),
        metavar: str | None = None,
        env: str | None = None,
        minimum: float | None = None,
        maximum: float | None = None,
        complete: str | None = None,
        is_hidden: bool = False,
    ) -> None:
        assert all(name.startswith("-") for name in (*names, *aliases)), "an option's names begin with a dash"
        self.names = names
        self.aliases = aliases
        self.help = help
        self.metavar = metavar
        self.env = env
        self.minimum = minimum
        self.maximum = maximum
        self.complete = complete  # what completes it: "topic", "group", "file"
        self.is_hidden = is_hidden


class Argument:
    """Something said by its place. A list, which takes all that is left, can only be the last one."""

    __slots__ = ("complete", "help", "maximum", "metavar", "minimum")

    def __init__(
        self,
        *,
        help: str,
        metavar: str | None = None,
        minimum: float | None = None,
        maximum: float | None = None,
        complete: str | None = None,
    ) -> None:
        self.help = help
        self.metavar = metavar
        self.minimum = minimum
        self.maximum = maximum
        self.complete = complete


class Parameter(NamedTuple):
    """One thing that can be said to a command."""

    name: str
    bundle: str | None  # the function's parameter that it is a part of
    declared: Option | Argument
    kind: type  # str, int, float or bool
    choices: tuple[str, ...]
    is_many: bool
    default: Any

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED

    @property
    def is_switch(self) -> bool:
        return self.kind is bool


class Command:
    """A function, and what can be said to it."""

    def __init__(
        self,
        work: Work,
        *,
        examples: Sequence[str] = (),
        kafka: str | None = None,
        kafka_flags: Sequence[str] = (),
        is_hidden: bool = False,
    ) -> None:
        self.work = work
        self.help = work.__doc__ or ""
        self.examples = tuple(examples)
        self.kafka = kafka
        self.kafka_flags = frozenset(kafka_flags)
        self.is_hidden = is_hidden
        self._parameters: tuple[Parameter, ...] | None = None

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        if self._parameters is None:
            self._parameters = tuple(_parameters(self.work))
        return self._parameters

    def is_said_as_kafka_does(self, words: Sequence[str]) -> bool:
        """Whether these are the flags of Kafka's own tool rather than ours."""
        return any(word.partition("=")[0] in self.kafka_flags for word in words)

    def run(self, values: dict[str, Any]) -> int:
        """Do it, with the values of all parameters by name; the exit status."""
        hints = get_type_hints(self.work, include_extras=True)
        arguments: dict[str, Any] = {}
        bundled: dict[str, dict[str, Any]] = {}
        for parameter in self.parameters:
            home = arguments if parameter.bundle is None else bundled.setdefault(parameter.bundle, {})
            home[parameter.name] = values[parameter.name]
        for name, fields in bundled.items():
            arguments[name] = hints[name](**fields)
        return self.work(**arguments) or 0


class Group:
    """Commands under one name: `penstock topics create`, `penstock topics list` ..."""

    def __init__(self, *, help: str, kafka: str | None = None) -> None:
        self.help = help
        self.is_hidden = False
        # The tool whose flags are understood where no command is named: `penstock topics --list`.
        self.kafka = kafka
        self.commands: dict[str, Command] = {}

    def command(
        self, name: str, *, examples: Sequence[str] = (), is_hidden: bool = False
    ) -> Callable[[AnyWork], AnyWork]:
        def add(work: AnyWork) -> AnyWork:
            self.commands[name] = Command(work, examples=examples, is_hidden=is_hidden)
            return work

        return add

    def is_said_as_kafka_does(self, words: Sequence[str]) -> bool:
        return (
            self.kafka is not None
            and bool(words)
            and words[0].startswith("-")
            and words[0] not in ("-h", "--help")
        )


def _parameters(work: Work) -> Iterator[Parameter]:
    hints = get_type_hints(work, include_extras=True)
    defaults = _defaults(work)
    for name, hint in hints.items():
        if name == "return":
            continue
        if hasattr(hint, "_field_defaults"):
            fields = get_type_hints(hint, include_extras=True)
            for field in hint._fields:
                default = hint._field_defaults.get(field, REQUIRED)
                yield _parameter(field, fields[field], bundle=name, default=default)
        else:
            yield _parameter(name, hint, bundle=None, default=defaults.get(name, REQUIRED))


def _defaults(work: Work) -> dict[str, Any]:
    """By parameter; without `inspect`, which takes as long to load as all of this."""
    code = work.__code__
    positional = code.co_varnames[: code.co_argcount]
    values = work.__defaults__ or ()
    return {
        **dict(zip(positional[len(positional) - len(values) :], values, strict=True)),
        **(work.__kwdefaults__ or {}),
    }


def _parameter(name: str, hint: Any, *, bundle: str | None, default: Any) -> Parameter:
    assert get_origin(hint) is Annotated, (
        f"{name} is declared by Annotated[..., Option(...) or Argument(...)]"
    )
    kind, declared = get_args(hint)[:2]
    kind = _without_none(kind)
    is_many = get_origin(kind) in (list, tuple)
    if is_many:
        kind = get_args(kind)[0]
    choices: tuple[str, ...] = ()
    if get_origin(kind) is Literal:
        kind, choices = str, get_args(kind)
    assert kind in (str, int, float, bool), f"{name} is text, a number, or a switch"
    return Parameter(name, bundle, declared, kind, choices, is_many, default)


def _without_none(kind: Any) -> Any:
    if get_origin(kind) in (Union, UnionType):
        kinds = [part for part in get_args(kind) if part is not NoneType]
        assert len(kinds) == 1, "a parameter has one type, or that type and None"
        return kinds[0]
    return kind


def options_of(parameters: Iterable[Parameter]) -> dict[str, Parameter]:
    """By each of their names."""
    return {
        name: parameter
        for parameter in parameters
        if isinstance(parameter.declared, Option)
        for name in parameter.declared.names
    }


def aliases_of(parameters: Iterable[Parameter]) -> dict[str, Parameter]:
    """Options by each of their older names."""
    return {
        alias: parameter
        for parameter in parameters
        if isinstance(parameter.declared, Option)
        for alias in parameter.declared.aliases
    }


def arguments_of(parameters: Iterable[Parameter]) -> list[Parameter]:
    """In the order in which they are said."""
    return [parameter for parameter in parameters if isinstance(parameter.declared, Argument)]
