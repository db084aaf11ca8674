"""What the quick reader understands, what it leaves to typer, and that both understand the same."""

from __future__ import annotations

import re
import shlex
from typing import Annotated, Any, Literal, NamedTuple

import pytest

from penstock.cli import app, commands
from penstock.cli.declare import Argument, Command, Group, Option
from penstock.cli.reading import Call, read


class Bundle(NamedTuple):
    where: Annotated[str | None, Option("--where", "-w", env="TEST_WHERE", help="")] = None
    many: Annotated[tuple[str, ...], Option("-X", help="")] = ()


def work(
    name: Annotated[str, Argument(help="")],
    rest: Annotated[tuple[int, ...], Argument(help="", minimum=0)] = (),
    *,
    bundle: Bundle,
    loud: Annotated[bool, Option("--loud", "-l", help="")] = False,
    count: Annotated[int | None, Option("--count", "-c", help="", minimum=1, maximum=9)] = None,
    share: Annotated[float, Option("--share", help="")] = 0.5,
    colour: Annotated[Literal["red", "blue"], Option("--colour", help="")] = "red",
) -> int:
    """Work."""
    done.append((name, rest, bundle, loud, count, share, colour))
    return 3


done: list[tuple[Any, ...]] = []
COMMAND = Command(work)
DEFAULTS = {
    "rest": (),
    "where": None,
    "many": (),
    "loud": False,
    "count": None,
    "share": 0.5,
    "colour": "red",
}

UNDERSTOOD = [
    ("a", {"name": "a"}),
    ("a 1 2", {"name": "a", "rest": [1, 2]}),
    ("--loud a", {"name": "a", "loud": True}),
    ("-l a -c 5", {"name": "a", "loud": True, "count": 5}),
    ("a -c5", {"name": "a", "count": 5}),
    ("a --count=5 --count 6", {"name": "a", "count": 6}),
    ("a --share .25", {"name": "a", "share": 0.25}),
    ("a -w here -X b=c -X d", {"name": "a", "where": "here", "many": ["b=c", "d"]}),
    ("a --where=x=y", {"name": "a", "where": "x=y"}),
    ("a --where -l", {"name": "a", "where": "-l"}),
    ("--colour blue -- -a 3", {"name": "-a", "colour": "blue", "rest": [3]}),
    ("-", {"name": "-"}),
]
LEFT_TO_TYPER = [
    "",
    "a --help",
    "-h",
    "a x",
    "a -1",
    "a --count",
    "a --count x",
    "a --count 0",
    "a --count 10",
    "a --share half",
    "a --colour green",
    "a --loud=yes",
    "a --lou",
    "a -lq",
    "a --other",
]


@pytest.fixture
def typer_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "PANELS", {"Test": ("work", "other")})
    monkeypatch.setattr(app, "load", {"work": COMMAND, "other": COMMAND}.__getitem__)


def by_typer(line: str) -> Call | int:
    return app.understand(["work", *shlex.split(line)])


@pytest.mark.parametrize(("line", "values"), UNDERSTOOD)
def test_a_line_in_order_is_understood_at_once(line: str, values: dict[str, Any]) -> None:
    call = read(COMMAND, shlex.split(line))

    assert call is not None
    assert call.values == {**DEFAULTS, **values}


@pytest.mark.parametrize(("line", "values"), UNDERSTOOD)
@pytest.mark.usefixtures("typer_reads_it")
def test_typer_understands_the_same(line: str, values: dict[str, Any]) -> None:
    assert by_typer(line) == read(COMMAND, shlex.split(line))


@pytest.mark.parametrize("line", LEFT_TO_TYPER)
@pytest.mark.usefixtures("typer_reads_it")
def test_the_rest_is_left_to_typer_which_answers_it(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert read(COMMAND, shlex.split(line)) is None
    assert by_typer(line) in (0, 2)
    told = capsys.readouterr()
    assert told.out or told.err


def test_the_environment_says_what_the_line_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_WHERE", "there")

    said, unsaid = read(COMMAND, ["a", "-w", "here"]), read(COMMAND, ["a"])

    assert said is not None
    assert said.values["where"] == "here"
    assert unsaid is not None
    assert unsaid.values["where"] == "there"


def test_a_command_gets_its_values_and_its_bundles() -> None:
    call = read(COMMAND, ["a", "7", "-X", "k=v", "-c", "2"])
    assert call is not None

    status = call.command.run(call.values)

    assert status == 3
    assert done.pop() == ("a", [7], Bundle(None, ["k=v"]), False, 2, 0.5, "red")  # type: ignore[arg-type]


def test_a_group_leads_to_its_command() -> None:
    group = Group(help="Things.")
    group.command("make")(work)

    call = read(group, ["make", "a"])

    assert call is not None
    assert call.values["name"] == "a"
    assert read(group, ["break", "a"]) is None
    assert read(group, []) is None


def all_commands() -> list[tuple[str, Command]]:
    found: list[tuple[str, Command]] = []
    for name in sorted(commands.NAMES):
        command = commands.load(name)
        if isinstance(command, Command):
            found.append((name, command))
        else:
            found += [(f"{name} {part}", one) for part, one in command.commands.items()]
    return found


@pytest.mark.parametrize(
    ("name", "command"), all_commands(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_is_helpful(name: str, command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    """It has a sentence on itself and on each of its parameters, and examples that it understands."""
    assert command.help.strip()
    assert all(parameter.declared.help for parameter in command.parameters)
    assert command.examples or command.is_hidden
    assert app.understand([*name.split(), "--help"]) == 0
    assert f"Usage: penstock {name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "example", sorted({example for _, command in all_commands() for example in command.examples})
)
def test_every_example_is_understood(example: str) -> None:
    ours = re.search(r"\bpenstock ((?:'[^']*'|\"[^\"]*\"|[^|><&)\"'])+)", example)
    assert ours, "an example runs penstock"
    name, *rest = shlex.split(ours[1])
    command = commands.load(name)

    assert command.is_said_as_kafka_does(rest) or read(command, rest) is not None


# -- one rule for settings: --set is what a command writes or starts, -X is for the client


@pytest.mark.parametrize(
    ("name", "command"), all_commands(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_no_command_has_another_name_for_a_setting(name: str, command: Command) -> None:
    shown = [
        set(parameter.declared.names)
        for parameter in command.parameters
        if isinstance(parameter.declared, Option) and parameter.declared.metavar == "KEY=VALUE"
    ]

    assert [names for names in shown if not names & {"--set", "-X", "--append", "--subtract"}] == []


@pytest.mark.parametrize(
    "line",
    [
        "topics create orders --set retention.ms=1",
        "topics create orders -s retention.ms=1",
        "topics create orders --config retention.ms=1",
        "topics create orders --config=retention.ms=1",
        "topics create orders -c retention.ms=1",
    ],
)
def test_older_names_of_an_option_still_work(line: str) -> None:
    name, *words = line.split()

    quick = read(commands.load(name), words)
    by_typer = app.understand([name, *words])

    assert quick is not None
    assert isinstance(by_typer, Call)
    assert list(quick.values["config"]) == list(by_typer.values["config"]) == ["retention.ms=1"]


def test_brokers_are_named_alike_in_every_command() -> None:
    call = read(commands.load("pipeline"), ["run", "orders.py", "--bootstrap-server", "host:9092"])

    assert call is not None
    assert call.values["brokers"] == "host:9092"


def test_help_does_not_show_older_names(capsys: pytest.CaptureFixture[str]) -> None:
    app.understand(["topics", "create", "--help"])

    shown = capsys.readouterr().out
    assert "--set" in shown
    assert "--config " not in shown
