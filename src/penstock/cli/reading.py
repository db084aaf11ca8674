"""The quick reader: understands a command line that is in order, and leaves every other to typer.

It never refuses anything itself. Whatever it does not understand at once (help, a slip of the pen, a number that is
none) is None, and `app` then has typer read the same line by the same declaration, for typer has the words. Where
this reader answers, typer would answer the same; a test holds them together.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from penstock.cli.declare import (
    Command,
    Group,
    Option,
    Parameter,
    aliases_of,
    arguments_of,
    options_of,
)


class Call(NamedTuple):
    """What is to be done: a command, and the values of all its parameters."""

    command: Command
    values: dict[str, Any]


def read(command: Command | Group, words: Sequence[str]) -> Call | None:
    """What this line asks for, or None where it takes typer to understand or to refuse it."""
    if isinstance(command, Group):
        chosen = command.commands.get(words[0]) if words else None
        return None if chosen is None else read(chosen, words[1:])
    said = _sort(command, words)
    if said is None:
        return None
    values: dict[str, Any] = {}
    for parameter in command.parameters:
        try:
            values[parameter.name] = _value(parameter, said.get(parameter.name) or _in_environment(parameter))
        except ValueError:
            return None
    return Call(command, values)


def _sort(command: Command, words: Sequence[str]) -> dict[str, list[str]] | None:
    """What was said of each parameter, in words."""
    options = options_of(command.parameters) | aliases_of(command.parameters)
    said: dict[str, list[str]] = {}
    by_place: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            by_place += rest
        elif not word.startswith("-") or word == "-":
            by_place.append(word)
        else:
            option, value = _split(word, options)
            if option is None or (option.is_switch and value is not None):
                return None
            if value is None:
                value = "yes" if option.is_switch else next(rest, None)
            if value is None:
                return None
            said.setdefault(option.name, []).append(value)
    for parameter in arguments_of(command.parameters):
        taken = len(by_place) if parameter.is_many else 1
        if by_place:
            said[parameter.name] = by_place[:taken]
        by_place = by_place[taken:]
    return None if by_place else said


def _split(word: str, options: dict[str, Parameter]) -> tuple[Parameter | None, str | None]:
    """An option and the value in the same word: `--name=value`, or `-nvalue` with a short name."""
    if word in options:
        return options[word], None
    if word.startswith("--"):
        name, separator, value = word.partition("=")
        return options.get(name), value if separator else None
    option = options.get(word[:2])
    if option is None or option.is_switch or word[2] == "=":
        return None, None
    return option, word[2:]


def _in_environment(parameter: Parameter) -> list[str]:
    declared = parameter.declared
    if isinstance(declared, Option) and declared.env and (value := os.environ.get(declared.env)):
        return [value]
    return []


def _value(parameter: Parameter, said: list[str]) -> Any:
    if not said:
        if parameter.is_required:
            raise ValueError(parameter.name)
        return parameter.default
    if parameter.is_switch:
        return True
    values = [_convert(parameter, text) for text in said]
    return values if parameter.is_many else values[-1]


def _convert(parameter: Parameter, text: str) -> str | int | float:
    if parameter.choices and text not in parameter.choices:
        raise ValueError(text)
    if parameter.kind is str:
        return text
    number: int | float = parameter.kind(text)
    smallest, largest = parameter.declared.minimum, parameter.declared.maximum
    if (smallest is not None and number < smallest) or (largest is not None and number > largest):
        raise ValueError(text)
    return number
