"""Typer over the same declarations as `reading`: help, and words for a line that is not in order.

Nothing runs inside typer: it answers with help, or with a refusal, or it fills in a `Call` that the quick reader
had no patience for. See `declare` for why it rarely comes to that.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Optional

import typer
from typer.core import TyperCommand, TyperGroup

from penstock.cli.commands import NAMES, PANELS, load
from penstock.cli.declare import REQUIRED, Argument, Command, Group, Option, Parameter, aliases_of
from penstock.cli.reading import Call

MISUSED = 2
CHOICES_WIDTH = 16  # more would take the place of the words that explain them
METAVARS = {str: "TEXT", int: "NUMBER", float: "NUMBER", bool: ""}  # a switch is said alone

Collect = Callable[[Call], None]


def understand(words: Sequence[str]) -> Call | int:
    """What the line asks for, or the exit status where typer has answered it."""
    calls: list[Call] = []
    app = build_app(calls.append, populated=words[0] if words else None)
    try:
        status = app(_without_aliases(words), prog_name="penstock", standalone_mode=False)
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # `penstock --help | head` is no failure
            raise ended.__context__ from None
        raise
    except Exception as problem:
        # Typer brings its own copy of click since 0.20 or uses the one that is installed: known by what they can do.
        if not hasattr(problem, "format_message"):
            raise
        return _refuse(problem)
    return calls[0] if calls else int(status or 0)


def _without_aliases(words: Sequence[str]) -> list[str]:
    """Hidden aliases of options, by the name that help shows. Typer knows only the latter."""
    if not words or words[0] not in NAMES:
        return list(words)
    command = load(words[0])
    if isinstance(command, Group):
        chosen = command.commands.get(words[1]) if len(words) > 1 else None
        if chosen is None:
            return list(words)
        command = chosen
    present = {
        alias: _same_length(alias, option.declared)
        for alias, option in aliases_of(command.parameters).items()
    }
    return [
        present[name] + separator + value if name in present else word
        for word in words
        for name, separator, value in [word.partition("=")]
    ]


def _same_length(alias: str, declared: Option | Argument) -> str:
    """A short name for a short one, where there is one."""
    assert isinstance(declared, Option)
    names = [name for name in declared.names if name.startswith("--") == alias.startswith("--")]
    return (names or declared.names)[0]


def build_app(collect: Collect, *, populated: str | None) -> typer.Typer:
    """All commands by name; only the one that is meant has its options, because building them takes time."""
    app = _new_typer(
        help="Penstock: an event streaming platform that speaks Kafka's protocol.", cls=_InOurOrder
    )
    app.info.epilog = "`penstock COMMAND --help` tells more of each, with examples."
    app.callback()(_root)
    for panel, names in PANELS.items():
        for name in names:
            command = load(name)
            if isinstance(command, Command):
                _add(app, name, command, collect, panel=panel, is_populated=name == populated)
            else:
                app.add_typer(
                    _group(command, collect, is_populated=name == populated),
                    name=name,
                    rich_help_panel=panel,
                )
    return app


def _root(
    version: Annotated[
        bool, typer.Option("--version", metavar=METAVARS[bool], help="Print the version.")
    ] = False,
) -> None:
    """`--version` is answered before it comes here; this names it in the help."""


class _Plain:
    """Help in the words of those who type: `TOPIC` where typer has `{topic} <str>`, and a switch without `<bool>`."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # it stands before a class of typer's
        for parameter in parameters:
            if parameter.param_type_name == "argument":
                parameter.display_type_rich = _without_type
            elif parameter.name == "help":
                parameter.metavar = METAVARS[bool]
        return parameters

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces: list[str] = super().collect_usage_pieces(ctx)  # type: ignore[misc]
        return [
            re.sub(r"^\{(.*)\}", r"\1", piece).replace("...]...", "...]").replace("......", "...")
            for piece in pieces
        ]


def _without_type(ctx: Any) -> None:
    return None


class _PlainCommand(_Plain, TyperCommand):
    pass


class _PlainGroup(_Plain, TyperGroup):
    pass


class _InOurOrder(_PlainGroup):
    """Typer would have all single commands before all groups."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for names in PANELS.values() for name in names]


def _new_typer(*, help: str, cls: type[TyperGroup] = _PlainGroup) -> typer.Typer:
    return typer.Typer(
        cls=cls,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
        help=help,
    )


def _group(group: Group, collect: Collect, *, is_populated: bool) -> typer.Typer:
    app = _new_typer(help=group.help)
    if group.kafka:
        app.info.epilog = f"The flags of Kafka's own `{group.kafka}.sh` are understood as well."
    app.callback()(lambda: None)  # so that a group of one command is a group still
    for name, command in group.commands.items():
        _add(app, name, command, collect, panel=None, is_populated=is_populated)
    return app


def _add(
    app: typer.Typer, name: str, command: Command, collect: Collect, *, panel: str | None, is_populated: bool
) -> None:
    def collected(**values: Any) -> None:
        for parameter in command.parameters:  # typer makes an empty list of a list that was not said
            if parameter.is_many and not values[parameter.name]:
                values[parameter.name] = parameter.default
        collect(Call(command, values))

    parameters = [_signature(parameter) for parameter in command.parameters] if is_populated else []
    collected.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    collected.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app.command(
        name=name,
        cls=_PlainCommand,
        help=_unfolded(command.help) + _examples(command),
        epilog=_variables(command) if is_populated else None,
        rich_help_panel=panel,
        hidden=command.is_hidden,
        no_args_is_help=False,
    )(collected)


def _unfolded(text: str) -> str:
    """A line for each paragraph: code in it that goes over two lines of the source would keep the indentation."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(text))


def _examples(command: Command) -> str:
    if not command.examples:
        return ""
    return "\n\n**Examples**\n\n" + "\n\n".join(f"- `{example}`" for example in command.examples)


def _variables(command: Command) -> str | None:
    """Those that stand for an option. Beside the option there is no room for such names on a narrow terminal."""
    told = [
        f"Where `{parameter.declared.names[0]}` is not said, the variable `{parameter.declared.env}` is asked."
        for parameter in command.parameters
        if isinstance(parameter.declared, Option) and parameter.declared.env
    ]
    return " ".join(told) or None


def _signature(parameter: Parameter) -> inspect.Parameter:
    declared = parameter.declared
    metavar = declared.metavar or "|".join(parameter.choices) or _metavar(parameter)
    is_long = bool(parameter.choices) and len(metavar) > CHOICES_WIDTH
    said: dict[str, Any] = {
        "help": f"{declared.help} One of {', '.join(parameter.choices)}." if is_long else declared.help,
        "metavar": "WORD" if is_long else metavar,
        "show_default": parameter.default not in (None, REQUIRED, "", "\n", False, ()),
        "min": declared.minimum,
        "max": declared.maximum,
        "callback": _check_choice(parameter.choices) if parameter.choices else None,
    }
    info: Any
    if isinstance(declared, Argument):
        info = typer.Argument(**said)
    else:
        info = typer.Option(
            *declared.names, envvar=declared.env, show_envvar=False, hidden=declared.is_hidden, **said
        )
    kind: Any = list[parameter.kind] if parameter.is_many else parameter.kind  # type: ignore[name-defined]
    if parameter.default is None:
        kind = Optional[kind]  # noqa: UP045 - the operator does not take a kind that is known at run time only
    default = inspect.Parameter.empty if parameter.is_required else parameter.default
    return inspect.Parameter(
        parameter.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=list(default) if isinstance(default, tuple) else default,
        annotation=Annotated[kind, info],
    )


def _metavar(parameter: Parameter) -> str:
    if isinstance(parameter.declared, Argument):
        return parameter.name.upper() + ("..." if parameter.is_many else "")
    return METAVARS[parameter.kind]


def _check_choice(choices: tuple[str, ...]) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        for said in value if isinstance(value, list) else [value]:
            if said is not None and said not in choices:
                raise typer.BadParameter(f"{said} is not one of {', '.join(choices)}")
        return value

    return check


def _refuse(problem: Any) -> int:
    """One sentence, and where to read on."""
    words = problem.format_message().rstrip().replace("\n", " ")
    if words and not words.endswith((".", "?", "!", ")")):  # without words its help has been shown
        words += "."
    context = getattr(problem, "ctx", None)
    path = context.command_path if context is not None else "penstock"
    if words:
        print(f"penstock: {words}\n`{path} --help` shows what it takes.", file=sys.stderr)
    return int(getattr(problem, "exit_code", MISUSED))
