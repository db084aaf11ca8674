"""The way in: `penstock ...`, `python -m penstock ...`, and the scripts of `bin/`.

    penstock topics create orders       our own words; see `commands`
    penstock topics --list              the flags of Kafka's own tool, and its output; see `kafka`
    penstock kafka-topics --list        the same
    kafka-topics.sh --list              the same, as pip installs it; in a clone it is `bin/kafka-topics.sh`

A line takes the shortest way: the command that it names is loaded and no other, and typer, which takes longer to
load than a broker does to start, only comes in for help and for what is not in order. Whatever goes wrong on the
way is told by `failures`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from penstock.cli import commands, kafka
from penstock.cli.failures import guard
from penstock.cli.reading import read


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return guard(lambda: _find(words)())


def kafka_main() -> int:
    """Run the Kafka tool that this process was started as, such as `kafka-topics.sh`."""
    return main([os.path.basename(sys.argv[0]), *sys.argv[1:]])


def _find(words: list[str]) -> Callable[[], int]:
    """What the line asks for, ready to be done."""
    name, rest = (words[0], words[1:]) if words else ("", [])
    if name == "--version":
        name = "version"
    if kafka.is_tool(name):
        return lambda: kafka.run(name, rest)
    if name in commands.NAMES:
        command = commands.load(name)
        if command.kafka is not None and command.is_said_as_kafka_does(rest):
            tool = command.kafka
            return lambda: kafka.run(tool, rest)
        if (call := read(command, rest)) is not None:
            quick = call
            return lambda: quick.command.run(quick.values)

    from penstock.cli.app import understand

    understood = understand(words)
    if isinstance(understood, int):
        return lambda: understood
    return lambda: understood.command.run(understood.values)
