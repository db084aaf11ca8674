"""Entry point of `penstock ...`, `python -m penstock ...` and the scripts of `bin/`.

    penstock topics create orders       our own commands; see `commands`
    penstock topics --list              the flags and the output of Kafka's own tool; see `kafka`
    penstock kafka-topics --list        the same
    kafka-topics.sh --list              the same, as pip installs it; in a clone it is `bin/kafka-topics.sh`

Only the named command is loaded; help is loaded only to be printed. `failures` reports all errors.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

from penstock.cli import commands, kafka
from penstock.cli.declare import Command, Group
from penstock.cli.failures import MISUSED, guard
from penstock.cli.flags import HelpRequested, UsageError, suggest


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return guard(lambda: _run(words))


def kafka_main() -> int:
    """Run the Kafka tool that this process was started as, such as `kafka-topics.sh`."""
    return main([os.path.basename(sys.argv[0]), *sys.argv[1:]])


def _run(words: list[str]) -> int:
    if not words:
        return _show_help("penstock", MISUSED)
    name, rest = words[0], words[1:]
    if name == "--version":
        name = "version"
    if kafka.is_tool(name):
        return kafka.run(name, rest)
    if name not in commands.NAMES:
        return _choose("penstock", name, commands.NAMES)
    command = commands.load(name)
    if command.kafka is not None and command.uses_kafka_flags(rest):
        return kafka.run(command.kafka, rest)
    if isinstance(command, Group):
        if not rest:
            return _show_help(f"penstock {name}", MISUSED, command)
        if rest[0] not in command.commands:
            return _choose(f"penstock {name}", rest[0], command.commands, command)
        command, name, rest = command.commands[rest[0]], f"{name} {rest[0]}", rest[1:]
    return _run_command(command, f"penstock {name}", rest)


def _run_command(command: Command, path: str, words: list[str]) -> int:
    try:
        values = command.parse(words)
    except HelpRequested:
        from penstock.cli.help import command_help

        print(command_help(command, path))
        return 0
    except UsageError as error:
        return _misused(path, str(error), "lists its options")
    return command.run(values)


def _choose(path: str, name: str, names: Iterable[str], group: Group | None = None) -> int:
    """The word is not a command: print help, or an error that suggests the closest names."""
    if name in ("-h", "--help"):
        return _show_help(path, 0, group)
    if name.startswith("-"):
        return _misused(path, f"unknown option {name}", "lists the commands")
    return _misused(path, f"unknown command '{name}'{suggest(name, names)}", "lists the commands")


def _show_help(path: str, status: int, group: Group | None = None) -> int:
    from penstock.cli.help import group_help, program_help

    print(program_help() if group is None else group_help(group, path))
    return status


def _misused(path: str, message: str, hint: str) -> int:
    end = "" if message.endswith((".", "?", "!")) else "."
    print(f"penstock: {message}{end}\n`{path} --help` {hint}.", file=sys.stderr)
    return MISUSED
