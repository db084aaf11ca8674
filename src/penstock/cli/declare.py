"""A command is declared once, on the function that does the work.

    @topics.command("create", examples=["penstock topics create orders --partitions 6"])
    def create(
        name: Annotated[str, argument(help="Name of the topic.")],
        *,
        connection: Connection,
        output: Output,
        partitions: Annotated[int | None, option("--partitions", "-p", help="How many.", minimum=1)] = None,
    ) -> None:
        '''Create a topic.'''

`Command.flags` turns the signature into `Flag`s: the type, the default and the choices (`Literal`) come from the
annotations. A parameter whose type is a NamedTuple is a bundle: each of its fields is an option
(`connection.Connection`, `output.Output`).

Every command line loads this module, so it must stay cheap: it does not import `inspect`, and a command's module
imports what it works with inside its functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from penstock.cli.flags import Flag, Names, OneOf, Rules, read_values

Work = Callable[..., int | None]
AnyWork = TypeVar("AnyWork", bound=Work)

REQUIRED: Final = object()  # the default of a parameter that has none
HELP: Final = Flag("help", "Show this message.", ("--help", "-h"), type=bool)


def option(
    *names: str,
    help: str,
    aliases: Names = (),
    metavar: str | None = None,
    env: str | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    complete: str | None = None,
    is_hidden: bool = False,
    needs: Rules = (),
    forbids: Rules = (),
) -> Flag:
    """An option, for `Annotated`. `bool` makes it a switch, a list or tuple makes it repeatable."""
    assert all(name.startswith("-") for name in (*names, *aliases)), "an option's names begin with a dash"
    return Flag(
        "",
        help,
        names,
        aliases,
        metavar=metavar,
        env=env,
        minimum=minimum,
        maximum=maximum,
        complete=complete,
        is_hidden=is_hidden,
        needs=needs,
        forbids=forbids,
    )


def argument(
    *,
    help: str,
    metavar: str | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    complete: str | None = None,
) -> Flag:
    """A positional argument, for `Annotated`. A list or tuple takes all remaining words and must be the last."""
    return Flag("", help, metavar=metavar, minimum=minimum, maximum=maximum, complete=complete)


class Command:
    """A function and the flags that its signature declares."""

    def __init__(
        self,
        work: Work,
        *,
        examples: Sequence[str] = (),
        one_of: Sequence[OneOf] = (),
        kafka: str | None = None,
        kafka_flags: Sequence[str] = (),
        is_hidden: bool = False,
    ) -> None:
        self.work = work
        self.help = work.__doc__ or ""
        self.examples = tuple(examples)
        self.one_of = tuple(one_of)
        self.kafka = kafka
        self.kafka_flags = frozenset(kafka_flags)
        self.is_hidden = is_hidden
        self._flags: tuple[Flag, ...] | None = None

    @property
    def flags(self) -> tuple[Flag, ...]:
        if self._flags is None:
            self._flags = (*_flags(self.work), HELP)
        return self._flags

    def uses_kafka_flags(self, words: Sequence[str]) -> bool:
        """Whether these are the flags of Kafka's own tool rather than ours."""
        return any(word.partition("=")[0] in self.kafka_flags for word in words)

    def parse(self, words: Sequence[str]) -> dict[str, Any]:
        return read_values(self.flags, words, self.one_of)

    def run(self, values: dict[str, Any]) -> int:
        """Call the function with the value of every flag. Returns the exit status."""
        arguments: dict[str, Any] = {}
        bundled: dict[str, dict[str, Any]] = {}
        for flag in self.flags:
            if flag is not HELP:
                target = arguments if flag.bundle is None else bundled.setdefault(flag.bundle, {})
                target[flag.name] = values[flag.name]
        if bundled:
            hints = get_type_hints(self.work, include_extras=True)
            arguments |= {name: hints[name](**fields) for name, fields in bundled.items()}
        return self.work(**arguments) or 0


class Group:
    """Commands under one name: `penstock topics create`, `penstock topics list` ..."""

    def __init__(self, *, help: str, kafka: str | None = None) -> None:
        self.help = help
        self.is_hidden = False
        # The Kafka tool that runs if the first word is an option: `penstock topics --list`.
        self.kafka = kafka
        self.commands: dict[str, Command] = {}

    def command(
        self,
        name: str,
        *,
        examples: Sequence[str] = (),
        one_of: Sequence[OneOf] = (),
        is_hidden: bool = False,
    ) -> Callable[[AnyWork], AnyWork]:
        def add(work: AnyWork) -> AnyWork:
            self.commands[name] = Command(work, examples=examples, one_of=one_of, is_hidden=is_hidden)
            return work

        return add

    def uses_kafka_flags(self, words: Sequence[str]) -> bool:
        return (
            self.kafka is not None
            and bool(words)
            and words[0].startswith("-")
            and words[0] not in ("-h", "--help")
        )


def _flags(work: Work) -> Iterator[Flag]:
    defaults = _defaults(work)
    for name, hint in get_type_hints(work, include_extras=True).items():
        if name == "return":
            continue
        if hasattr(hint, "_field_defaults"):
            fields = get_type_hints(hint, include_extras=True)
            for field in hint._fields:
                default = hint._field_defaults.get(field, REQUIRED)
                yield _flag_of(field, fields[field], bundle=name, default=default)
        else:
            yield _flag_of(name, hint, bundle=None, default=defaults.get(name, REQUIRED))


def _defaults(work: Work) -> dict[str, Any]:
    """By parameter. Does without `inspect`, which takes as long to import as the whole command line."""
    code = work.__code__
    positional = code.co_varnames[: code.co_argcount]
    values = work.__defaults__ or ()
    return {
        **dict(zip(positional[len(positional) - len(values) :], values, strict=True)),
        **(work.__kwdefaults__ or {}),
    }


def _flag_of(name: str, hint: Any, *, bundle: str | None, default: Any) -> Flag:
    """Complete the flag from its annotation."""
    assert get_origin(hint) is Annotated, (
        f"{name}: declare it as Annotated[..., option(...) or argument(...)]"
    )
    kind, flag = get_args(hint)[:2]
    kind = _without_none(kind)
    is_repeatable = get_origin(kind) in (list, tuple)
    if is_repeatable:
        kind = get_args(kind)[0]
    choices: Names = ()
    if get_origin(kind) is Literal:
        kind, choices = str, get_args(kind)
    assert kind in (str, int, float, bool), f"{name}: must be text, a number or a switch"
    completed: Flag = flag._replace(
        name=name,
        type=kind,
        choices=choices,
        is_repeatable=is_repeatable,
        is_required=default is REQUIRED,
        default=None if default is REQUIRED else default,
        bundle=bundle,
    )
    return completed


def _without_none(kind: Any) -> Any:
    if get_origin(kind) in (Union, UnionType):
        kinds = [part for part in get_args(kind) if part is not NoneType]
        assert len(kinds) == 1, "a parameter has one type, or that type and None"
        return kinds[0]
    return kind
