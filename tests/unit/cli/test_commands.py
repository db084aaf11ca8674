"""What every command promises: names that do not collide, and help with examples that can be typed."""

from __future__ import annotations

import shlex

import pytest

from penstock.cli import commands
from penstock.cli.declare import Command, Group, Option
from penstock.cli.main import main
from penstock.cli.reading import read


def all_commands() -> list[tuple[str, Command]]:
    found: list[tuple[str, Command]] = []
    for name in sorted(commands.NAMES):
        command = commands.load(name)
        if isinstance(command, Group):
            found += [(f"{name} {each}", inner) for each, inner in command.commands.items()]
        else:
            found.append((name, command))
    return found


SHOWN = [(name, command) for name, command in all_commands() if not command.is_hidden]
NAMES = [name for name, _ in SHOWN]


@pytest.mark.parametrize("command", [command for _, command in SHOWN], ids=NAMES)
def test_no_two_parameters_have_the_same_name(command: Command) -> None:
    """A bundle's fields and the command's own share one space: the later would silently take the earlier's value."""
    names = [parameter.name for parameter in command.parameters]
    options = [
        name
        for parameter in command.parameters
        if isinstance(parameter.declared, Option)
        for name in parameter.declared.names
    ]

    assert len(set(names)) == len(names)
    assert len(set(options)) == len(options)


@pytest.mark.parametrize(("name", "command"), SHOWN, ids=NAMES)
def test_examples_are_lines_that_the_command_understands(name: str, command: Command) -> None:
    assert command.help
    for example in command.examples:
        words = shlex.split(example.partition(" | ")[0].partition(" > ")[0].partition(" < ")[0])
        if words[0] != "penstock" or " ".join(words[1:]).removeprefix(name) == " ".join(words[1:]):
            continue  # what comes before the command in a pipe
        assert read(command, words[1 + len(name.split()) :]) is not None, example


@pytest.mark.parametrize("name", commands.PANELS["Cluster"])
def test_commands_that_administer_show_examples(name: str) -> None:
    group = commands.load(name)

    assert isinstance(group, Group)
    assert all(command.examples for command in group.commands.values())


@pytest.mark.parametrize("name", NAMES)
def test_help_speaks_of_no_types_and_cuts_nothing_off(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*name.split(), "--help"]) == 0

    told = capsys.readouterr().out
    assert [odd for odd in ("<bool>", "<str>", "<int", "<float", "<list", "......", "…") if odd in told] == []
    usage = next(line for line in told.splitlines() if "Usage:" in line)
    assert "{" not in usage


def test_help_keeps_no_indentation_of_the_source_in_code(capsys: pytest.CaptureFixture[str]) -> None:
    main(["consume", "--help"])

    assert "produce --format json" in capsys.readouterr().out
