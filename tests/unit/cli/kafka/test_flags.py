"""How Kafka's tools read their arguments, and what they say when they cannot."""

from __future__ import annotations

import pytest

from penstock.cli.kafka.flags import BadFlags, Flag, Flags, Said, parse_pairs, run_tool

FLAGS = Flags(
    "This tool helps.",
    Flag("topic", "The topic.", "String: topic", shorts=("-t",)),
    Flag("timeout-ms", "How long to wait.", "Integer", default="1000"),
    Flag("property", "A property.", "key=value"),
    Flag("props", "Properties.", "key=value", takes_rest=True),
    Flag("from-beginning", "From the start."),
    words="command",
)


def read(line: str) -> Said:
    return FLAGS.read(line.split())


def test_a_value_follows_its_flag_or_stands_behind_an_equals_sign() -> None:
    assert read("--topic a").get("topic") == "a"
    assert read("--topic=a=b").get("topic") == "a=b"
    assert read("-t a").get("topic") == "a"
    assert read("--topic a --topic b").all("topic") == ["a", "b"]
    assert read("--topic a --topic b").get("topic") == "b"


def test_an_unambiguous_beginning_is_enough() -> None:
    assert read("--top a --from").has("from-beginning")
    with pytest.raises(BadFlags, match="prop is not a recognized option"):
        read("--prop a")


def test_defaults_count_as_not_said() -> None:
    said = read("describe")

    assert said.number("timeout-ms") == 1000
    assert not said.has("timeout-ms")
    assert said.get("topic") is None
    assert said.words == ["describe"]


def test_several_words_may_follow_one_flag() -> None:
    assert read("--props a=b c=d --topic x").all("props") == ["a=b", "c=d"]
    assert parse_pairs(["a=b=c", "d"]) == {"a": "b=c", "d": ""}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--nonsense", "nonsense is not a recognized option"),
        ("--topic", "Option topic requires an argument"),
    ],
)
def test_what_is_wrong_is_told_in_kafkas_words_with_the_flags(
    line: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_tool(FLAGS, line.split(), lambda said: 0) == 1
    told = capsys.readouterr().err
    assert told.startswith(words)
    assert "--from-beginning" in told


def test_a_number_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tool(FLAGS, ["--timeout-ms", "soon"], lambda said: said.number("timeout-ms")) == 1
    assert "Cannot parse argument 'soon' of option timeout-ms" in capsys.readouterr().err


def test_what_is_required_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    flags = Flags("Help.", Flag("files", "Files.", "file", is_required=True), Flag("deep", "Deep."))

    assert run_tool(flags, ["--deep"], lambda said: 0) == 1
    assert capsys.readouterr().err.startswith('Missing required argument "[files]"')


def test_help_is_given_where_it_is_asked_for_or_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tool(FLAGS, ["--help"], lambda said: 5) == 0
    assert run_tool(FLAGS, [], lambda said: 5) == 1
    assert capsys.readouterr().out.count("This tool helps.") == 2


def test_words_are_refused_where_there_is_no_place_for_them() -> None:
    with pytest.raises(BadFlags, match="Unexpected argument: x"):
        Flags("", Flag("a", "", "x")).read(["x"])
