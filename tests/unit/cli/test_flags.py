"""How a command line becomes the values of a command, and which errors it can have."""

from __future__ import annotations

import re
import shlex
from typing import Annotated, Any, Literal, NamedTuple

import pytest

from penstock.cli import commands
from penstock.cli.declare import Command, Group, argument, option
from penstock.cli.flags import HelpRequested, OneOf, UsageError
from penstock.cli.main import main


class Bundle(NamedTuple):
    where: Annotated[str | None, option("--where", "-w", env="TEST_WHERE", help="")] = None
    many: Annotated[tuple[str, ...], option("-X", help="")] = ()


def work(
    name: Annotated[str, argument(help="")],
    rest: Annotated[tuple[int, ...], argument(help="", minimum=0)] = (),
    *,
    bundle: Bundle,
    loud: Annotated[bool, option("--loud", "-l", help="")] = False,
    count: Annotated[int | None, option("--count", "-c", help="", minimum=1, maximum=9)] = None,
    share: Annotated[float, option("--share", help="")] = 0.5,
    colour: Annotated[Literal["red", "blue"], option("--colour", help="")] = "red",
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

ACCEPTED = [
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
    ("a -lc5", {"name": "a", "loud": True, "count": 5}),
    ("a -c=5", {"name": "a", "count": 5}),
]
REJECTED = [
    ("", "NAME is required"),
    ("a x", "REST x: must be a whole number"),
    ("a -1", "unknown option -1"),
    ("a --count", "--count needs a value"),
    ("a --count x", "--count x: must be a whole number"),
    ("a --count 0", "--count 0: must be at least 1"),
    ("a --count 10", "--count 10: must be at most 9"),
    ("a --share half", "--share half: must be a number"),
    ("a --colour green", "--colour green: must be one of red, blue"),
    ("a --loud=yes", "--loud takes no value"),
    ("a --lou", "unknown option --lou. Did you mean --loud?"),
    ("a -lq", "unknown option -q"),
    ("a --verbose", "unknown option --verbose"),
]


@pytest.mark.parametrize(("line", "values"), ACCEPTED)
def test_values_are_parsed(line: str, values: dict[str, Any]) -> None:
    assert COMMAND.parse(shlex.split(line)) == {**DEFAULTS, **values}


@pytest.mark.parametrize(("line", "message"), REJECTED)
def test_an_error_names_the_option_and_the_reason(line: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        COMMAND.parse(shlex.split(line))


@pytest.mark.parametrize("line", ["a --help", "-h", "--nonsense --help"])
def test_help_is_found_next_to_mistakes(line: str) -> None:
    with pytest.raises(HelpRequested):
        COMMAND.parse(line.split())


def test_an_argument_that_is_too_many_is_rejected() -> None:
    def one(name: Annotated[str, argument(help="")]) -> None: ...

    with pytest.raises(UsageError, match="unexpected argument 'b'"):
        Command(one).parse(["a", "b"])


def test_the_environment_sets_options_that_are_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_WHERE", "there")

    assert COMMAND.parse(["a", "-w", "here"])["where"] == "here"
    assert COMMAND.parse(["a"])["where"] == "there"


def test_a_command_gets_its_values_and_its_bundles() -> None:
    status = COMMAND.run(COMMAND.parse(["a", "7", "-X", "k=v", "-c", "2"]))

    assert status == 3
    assert done.pop() == ("a", [7], Bundle(None, ["k=v"]), False, 2, 0.5, "red")  # type: ignore[arg-type]


def related(
    *,
    to: Annotated[int | None, option("--to", help="")] = None,
    since: Annotated[int | None, option("--since", help="", needs=("to",))] = None,
    quiet: Annotated[bool, option("--quiet", help="", forbids=("to",))] = False,
    first: Annotated[bool, option("--first", help="")] = False,
    last: Annotated[bool, option("--last", help="")] = False,
) -> None:
    """Options that depend on each other."""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--first --since 1", "--since needs --to"),
        ("--first --quiet --to 1", "--quiet cannot be combined with --to"),
        ("", "give --first or --last"),
        ("--first --last", "give --first or --last"),
    ],
)
def test_needs_forbids_and_one_of_are_checked(line: str, message: str) -> None:
    command = Command(related, one_of=[OneOf(("first", "last"), "give --first or --last")])

    with pytest.raises(UsageError, match=f"^{message}$"):
        command.parse(line.split())
    assert command.parse(["--last", "--since", "1", "--to", "2"])["since"] == 1


def test_at_most_one_of_an_action_is_checked_only_with_that_action() -> None:
    rule = OneOf(("to", "since"), is_required=False, action="first")
    command = Command(related, one_of=[rule])

    assert command.parse(["--last", "--to", "1", "--since", "2"])["to"] == 1
    assert command.parse(["--first"])["to"] is None
    with pytest.raises(UsageError, match=r"^--to cannot be combined with --since$"):
        command.parse(["--first", "--to", "1", "--since", "2"])


@pytest.mark.parametrize(
    ("line", "suggested"),
    [
        ("topics create t --part 3", "--partitions"),
        ("consume t --value x", "--value-format"),
        ("perf produce t --record-size 4", "--size or --records"),
        ("topics create t --partitons 3", "--partitions"),
    ],
)
def test_part_of_a_name_or_a_typo_is_answered_with_the_names_meant(
    line: str, suggested: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 2
    assert f"Did you mean {suggested}?" in capsys.readouterr().err


def test_a_wrong_choice_names_the_argument_not_its_choices_twice(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "klingon"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("penstock: SHELL klingon: must be one of bash, zsh, fish.\n")


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
def test_every_command_has_help(name: str, command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    """It describes itself and each of its flags, and has examples."""
    assert command.help.strip()
    assert all(flag.help for flag in command.flags)
    assert command.examples or command.is_hidden
    assert main([*name.split(), "--help"]) == 0
    assert f"Usage: penstock {name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "command"), all_commands(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_help_names_the_variable_that_sets_an_option(name: str, command: Command) -> None:
    assert all(f"${flag.env}" in flag.help for flag in command.flags if flag.env)


@pytest.mark.parametrize(
    "example", sorted({example for _, command in all_commands() for example in command.examples})
)
def test_every_example_can_be_parsed(example: str) -> None:
    ours = re.search(r"\bpenstock ((?:'[^']*'|\"[^\"]*\"|[^|><&)\"'])+)", example)
    assert ours, "an example runs penstock"
    name, *rest = shlex.split(ours[1])
    command = commands.load(name)
    if command.uses_kafka_flags(rest):
        return
    if isinstance(command, Command):
        command.parse(rest)
    else:
        command.commands[rest[0]].parse(rest[1:])


# -- one rule for settings: --set is what a command writes or starts, -X is for the client


@pytest.mark.parametrize(
    ("name", "command"), all_commands(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_no_command_has_another_name_for_a_setting(name: str, command: Command) -> None:
    shown = [set(flag.names) for flag in command.flags if flag.names and flag.metavar == "KEY=VALUE"]

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
    assert parse(line)["config"] == ["retention.ms=1"]


def parse(line: str) -> dict[str, Any]:
    group, name, *words = line.split()
    loaded = commands.load(group)
    assert isinstance(loaded, Group)
    return loaded.commands[name].parse(words)


def test_brokers_are_named_alike_in_every_command() -> None:
    assert parse("pipeline run orders.py --bootstrap-server host:9092")["brokers"] == "host:9092"


def test_help_does_not_show_older_names(capsys: pytest.CaptureFixture[str]) -> None:
    main(["topics", "create", "--help"])

    shown = capsys.readouterr().out
    assert "--set" in shown
    assert "--config " not in shown
