"""The output of `penstock settings` in a pipe and on a terminal."""

from __future__ import annotations

import re

import pytest

from penstock.cli.main import main
from penstock.cli.settings import choose, show_settings
from penstock.config.tables import BROKER, TOPIC


def test_one_setting_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "num.partitions"]) == 0

    name, default, allowed, changes, meaning = capsys.readouterr().out.rstrip("\n").split("\t")
    assert (name, default, allowed) == ("num.partitions", "1", "a 32-bit integer, at least 1")
    assert changes == "at startup"
    assert meaning == BROKER["num.partitions"].documentation


def test_a_part_of_a_name_finds_all_that_have_it() -> None:
    assert [s.name for s in choose(BROKER, "log.roll", in_force=False)] == [
        "log.roll.hours",
        "log.roll.jitter.hours",
        "log.roll.jitter.ms",
        "log.roll.ms",
    ]


def test_a_whole_name_finds_one_though_others_begin_with_it() -> None:
    assert [s.name for s in choose(BROKER, "max.connections", in_force=False)] == ["max.connections"]


def test_no_name_finds_all_but_the_internal() -> None:
    names = {setting.name for setting in choose(TOPIC, None, in_force=False)}

    assert names == set(TOPIC) - {"internal.segment.bytes"}


def test_only_implemented_settings_can_be_listed() -> None:
    assert all(setting.applies for setting in choose(BROKER, None, in_force=True))


@pytest.mark.parametrize("kind", ["--topic", "--group"])
def test_topics_and_groups_have_their_own(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    name = {"--topic": "segment.bytes", "--group": "share.isolation.level"}[kind]

    assert main(["settings", kind, name]) == 0
    assert "\tat runtime\t" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "name"),
    [("producer", "linger.ms"), ("consumer", "group.id"), ("admin", "bootstrap.controllers")],
)
def test_clients_have_their_own(kind: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", f"--{kind}", name]) == 0
    assert f"\twith a new {kind}\t" in capsys.readouterr().out


def test_the_error_names_the_option_for_another_kind_of_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "enable.idempotence"]) == 1
    assert "enable.idempotence is not a broker setting; try --producer" in capsys.readouterr().err


def test_a_partial_name_here_that_is_a_full_name_elsewhere_mentions_both(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["settings", "linger.ms"]) == 0

    shown = capsys.readouterr()
    assert "group.coordinator.append.linger.ms\t" in shown.out
    assert "linger.ms itself is not a broker setting: try --producer" in shown.err


def test_a_misspelled_name_suggests_the_closest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "log.retenton.ms"]) == 1
    assert "unknown setting log.retenton.ms; did you mean log.retention.ms?" in capsys.readouterr().err

    assert main(["settings", "lingr.ms"]) == 1
    assert "did you mean linger.ms? It needs --producer." in capsys.readouterr().err


def test_one_kind_is_shown_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "--producer", "--admin"]) != 0
    assert "give only one of --topic, --group, --producer" in capsys.readouterr().err


def test_an_unknown_name_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "no.such"]) == 1
    assert "no setting has no.such in its name" in capsys.readouterr().err


def test_the_default_data_directory_is_the_users(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")

    main(["settings", "log.dir"])

    assert capsys.readouterr().out.startswith("log.dir\t/state/penstock\t")


class TestOnATerminal:
    @pytest.fixture(autouse=True)
    def _columns(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "100")

    def test_one_setting_has_a_page(self, capsys: pytest.CaptureFixture[str]) -> None:
        show_settings("retention.ms", of="topic", in_force=False, on_terminal=True)

        page = capsys.readouterr().out
        assert re.search(r"default +604800000", page)
        assert re.search(r"see also +log.retention.hours", page)
        assert re.search(r"changes +at runtime", page)

    def test_several_stand_in_a_table(self, capsys: pytest.CaptureFixture[str]) -> None:
        show_settings("log.roll", in_force=False, on_terminal=True)

        table = capsys.readouterr().out
        assert re.search(r"setting +default +documentation", table)
        assert re.search(r"log.roll.hours +168 ", table)


def test_programs_get_json(capsys: pytest.CaptureFixture[str]) -> None:
    import json

    from penstock.cli.main import main

    assert main(["settings", "num.partitions", "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["name"], shown["default"]) == ("num.partitions", "1")
    assert shown.keys() == {"name", "default", "allowed", "changes", "documentation"}
