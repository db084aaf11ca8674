"""`--help` of our own commands, as plain text that fits the terminal. Kafka's tools print theirs in `kafka.tool`."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence

from penstock.cli import commands
from penstock.cli.declare import HELP, Command, Group
from penstock.cli.flags import Flag

METAVARS = {str: "TEXT", int: "NUMBER", float: "NUMBER", bool: ""}
CHOICES_WIDTH = 16  # longer choices move into the description
WIDTH_MAX = 110
LEFT_WIDTH_MAX = 32  # a longer name has its description on the next line


def program_help() -> str:
    """All commands, in panels."""
    lines = [
        "Usage: penstock [--version] COMMAND ...",
        "",
        "Penstock: an event streaming platform that speaks Kafka's protocol.",
    ]
    for panel, names in commands.PANELS.items():
        loaded = {name: commands.load(name) for name in names}
        lines += ["", _heading(panel), *_command_rows(loaded.items())]
    lines += ["", "`penstock COMMAND --help` explains a command and shows examples."]
    return "\n".join(lines)


def group_help(group: Group, path: str) -> str:
    """The commands of a group."""
    lines = [f"Usage: {path} COMMAND ...", "", *_paragraphs(group.help)]
    lines += ["", _heading("Commands"), *_command_rows(group.commands.items())]
    if group.kafka:
        lines += ["", f"It also takes the flags of Kafka's own {group.kafka}.sh."]
    return "\n".join(lines)


def command_help(command: Command, path: str) -> str:
    """What a command does, with examples, arguments and options."""
    options = [flag for flag in command.flags if flag.names and not flag.is_hidden]
    options.sort(
        key=lambda flag: (flag is HELP, flag.bundle is not None)
    )  # what all commands share comes last
    arguments = [flag for flag in command.flags if not flag.names]
    usage = [f"Usage: {path} [OPTIONS]", *(_usage(flag) for flag in arguments)]
    lines = [" ".join(usage), "", *_paragraphs(command.help)]
    if command.examples:
        lines += ["", _heading("Examples"), *(f"  {example}" for example in command.examples)]
    if arguments:
        lines += ["", _heading("Arguments"), *_rows([(_metavar(flag), _meaning(flag)) for flag in arguments])]
    lines += ["", _heading("Options"), *_rows([(_spelling(flag), _meaning(flag)) for flag in options])]
    return "\n".join(lines)


def first_line(help: str) -> str:
    """What lists show of a help text."""
    return help.strip().partition("\n")[0]


def _command_rows(named: Iterable[tuple[str, Command | Group]]) -> list[str]:
    return _rows([(name, first_line(each.help)) for name, each in named if not each.is_hidden])


def _usage(flag: Flag) -> str:
    return _metavar(flag) if flag.is_required else f"[{_metavar(flag)}]"


def _metavar(flag: Flag) -> str:
    if flag.metavar is not None:
        return flag.metavar
    if flag.choices:
        text = "|".join(flag.choices)
        return text if len(text) <= CHOICES_WIDTH else "WORD"
    if flag.names:
        return METAVARS[flag.type]
    return flag.name.upper() + ("..." if flag.is_repeatable else "")


def _spelling(flag: Flag) -> str:
    """Short names first, as `man` pages show them."""
    names = sorted(flag.names, key=lambda name: name.startswith("--"))
    indent = "" if len(names[0]) == 2 else "    "
    return f"{indent}{', '.join(names)} {_metavar(flag)}".rstrip()


def _meaning(flag: Flag) -> str:
    parts = [flag.help]
    if flag.choices and "|".join(flag.choices) != _metavar(flag):
        parts.append(f"One of {', '.join(flag.choices)}.")
    if flag.default not in (None, False, ()) and str(flag.default).strip():
        parts.append(f"[default: {flag.default}]")
    if flag.is_required and flag.names:
        parts.append("[required]")
    return " ".join(parts)


def _heading(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m" if sys.stdout.isatty() else text


def _width() -> int:
    return min(shutil.get_terminal_size().columns, WIDTH_MAX)


def _paragraphs(text: str) -> list[str]:
    """Wrapped to the terminal, with an empty line between paragraphs."""
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        wrapped = textwrap.wrap(" ".join(paragraph.split()), _width(), break_on_hyphens=False)
        lines += ["", *wrapped] if lines else wrapped
    return lines


def _rows(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Two columns."""
    left = min(max((len(name) for name, _ in rows), default=0), LEFT_WIDTH_MAX) + 4
    lines: list[str] = []
    for name, meaning in rows:
        wrapped = textwrap.wrap(meaning, max(30, _width() - left), break_on_hyphens=False) or [""]
        if len(name) + 4 > left:
            lines.append(f"  {name}")
            name = ""
        lines.append(f"  {name:<{left - 2}}{wrapped[0]}".rstrip())
        lines += [" " * left + line for line in wrapped[1:]]
    return lines
