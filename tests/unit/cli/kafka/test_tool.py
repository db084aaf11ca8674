"""How Kafka's tools parse their arguments, and their errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.flags import UsageError
from penstock.cli.kafka import console_producer
from penstock.cli.kafka.tool import Options, Tool, client_settings, flag, parse_pairs

TOOL = Tool(
    "This tool helps.",
    flag("topic", "The topic.", "String: topic", also=("-t",)),
    flag("timeout-ms", "How long to wait.", "Integer", default="1000"),
    flag("property", "A property.", "key=value"),
    flag("props", "Properties.", "key=value", takes_rest=True),
    flag("from-beginning", "From the start."),
    positional="command",
)


def read(line: str) -> Options:
    return TOOL.parse(line.split())


def test_a_value_follows_its_flag_or_an_equals_sign() -> None:
    assert read("--topic a").get("topic") == "a"
    assert read("--topic=a=b").get("topic") == "a=b"
    assert read("-t a").get("topic") == "a"
    assert read("--topic a --topic b").all("topic") == ["a", "b"]
    assert read("--topic a --topic b").get("topic") == "b"


def test_an_unambiguous_prefix_is_enough() -> None:
    assert read("--top a --from").has("from-beginning")
    with pytest.raises(UsageError, match="prop is not a recognized option"):
        read("--prop a")


def test_defaults_count_as_not_given() -> None:
    options = read("describe")

    assert options.number("timeout-ms") == 1000
    assert not options.has("timeout-ms")
    assert options.get("topic") is None
    assert options.words == ["describe"]


def test_several_values_may_follow_one_flag() -> None:
    assert read("--props a=b c=d --topic x").all("props") == ["a=b", "c=d"]
    assert parse_pairs(["a=b=c", "d"]) == {"a": "b=c", "d": ""}


@pytest.mark.parametrize("line", ["--new a --old b --new c", "--new a --new c --old b", "--new c --ol=b"])
def test_the_current_name_of_a_flag_wins_over_an_older_one(line: str) -> None:
    tool = Tool("", flag("new", "", "value", older=("--old",)))

    assert tool.parse(line.split()).get("new") == "c"
    assert tool.parse(line.split()).all("new")[0] == "b"
    assert tool.parse(["--old", "b"]).get("new") == "b"


def test_the_file_of_command_config_wins_over_the_one_of_an_older_name(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    new.write_text("acks=1\n")
    old.write_text("acks=0\nlinger.ms=7\n")
    options = console_producer.TOOL.parse(
        ["--topic", "t", "--command-config", str(new), "--producer.config", str(old)]
    )
    settings = client_settings(options)

    assert (settings["acks"], settings["linger.ms"]) == ("1", "7")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--nonsense", "nonsense is not a recognized option"),
        ("--topic", "Option topic requires an argument"),
    ],
)
def test_an_error_has_kafkas_message_and_lists_the_flags(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert TOOL.run(line.split(), lambda options: 0) == 1
    shown = capsys.readouterr().err
    assert shown.startswith(message)
    assert "--from-beginning" in shown


def test_an_invalid_number_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert TOOL.run(["--timeout-ms", "soon"], lambda options: options.number("timeout-ms")) == 1
    assert "Cannot parse argument 'soon' of option timeout-ms" in capsys.readouterr().err


def test_a_missing_required_flag_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    tool = Tool("Help.", flag("files", "Files.", "file", is_required=True), flag("deep", "Deep."))

    assert tool.run(["--deep"], lambda options: 0) == 1
    assert capsys.readouterr().err.startswith('Missing required argument "[files]"')


def test_help_is_printed_on_request_or_without_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert TOOL.run(["--help"], lambda options: 5) == 0
    assert TOOL.run([], lambda options: 5) == 1
    assert capsys.readouterr().out.count("This tool helps.") == 2


def test_unexpected_arguments_are_rejected() -> None:
    with pytest.raises(UsageError, match="Unexpected argument: x"):
        Tool("", flag("a", "", "x")).parse(["x"])


COMMANDS = Tool(
    "usage: kafka-things [-h] {list,remove} ...",
    flag("id", "The id.", "ID", ("-i",)),
    program="kafka-things",
    commands={"list": (), "remove": ("id",)},
)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--id 1", "kafka-things: error: too few arguments"),
        ("add", "kafka-things: error: invalid choice: 'add' (choose from list, remove)"),
        ("list all", "kafka-things: error: unrecognized arguments: 'all'"),
        ("remove", "kafka-things: error: argument --id/-i is required"),
    ],
)
def test_errors_of_subcommands_have_the_messages_of_argparse4j(line: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        COMMANDS.parse(line.split())
    assert str(raised.value) == message
