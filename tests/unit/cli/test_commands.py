"""Every command: its names do not collide, and its help fits and shows examples that can be typed."""

from __future__ import annotations

import shlex

import pytest

from penstock.cli import commands
from penstock.cli.declare import Command, Group
from penstock.cli.main import main


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
def test_no_two_flags_have_the_same_name(command: Command) -> None:
    """A bundle's fields and the command's own share one namespace: a duplicate would silently win."""
    names = [flag.name for flag in command.flags]
    options = [name for flag in command.flags for name in (*flag.names, *flag.aliases)]

    assert len(set(names)) == len(names)
    assert len(set(options)) == len(options)


@pytest.mark.parametrize(("name", "command"), SHOWN, ids=NAMES)
def test_examples_can_be_parsed(name: str, command: Command) -> None:
    assert command.help
    for example in command.examples:
        words = shlex.split(example.partition(" | ")[0].partition(" > ")[0].partition(" < ")[0])
        if words[0] != "penstock" or " ".join(words[1:]).removeprefix(name) == " ".join(words[1:]):
            continue  # another program of the pipe
        command.parse(words[1 + len(name.split()) :])


@pytest.mark.parametrize("name", commands.PANELS["Cluster"])
def test_commands_that_administer_show_examples(name: str) -> None:
    group = commands.load(name)

    assert isinstance(group, Group)
    assert all(command.examples for command in group.commands.values())


@pytest.mark.parametrize("name", NAMES)
def test_help_shows_no_types_and_truncates_nothing(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*name.split(), "--help"]) == 0

    shown = capsys.readouterr().out
    assert [
        odd for odd in ("<bool>", "<str>", "<int", "<float", "<list", "......", "…") if odd in shown
    ] == []
    body, _, examples = shown.partition("\nExamples\n")
    lines = [*body.splitlines(), *examples.partition("\n\n")[2].splitlines()]
    assert max(map(len, lines)) <= 80


def test_help_rewraps_paragraphs(capsys: pytest.CaptureFixture[str]) -> None:
    main(["consume", "--help"])

    assert "produce --format json" in capsys.readouterr().out


@pytest.mark.parametrize("line", ["remove-voter 4 x", "add-voter 4 x --endpoint CONTROLLER://a:9093"])
def test_an_invalid_directory_id_is_rejected_without_a_traceback(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["quorum", *line.split()]) == 2
    assert "DIRECTORY_ID: 'x' is not an id" in capsys.readouterr().err
