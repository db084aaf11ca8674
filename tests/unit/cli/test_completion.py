"""Shell completion."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from penstock.cli.completion import SHELLS, candidates, format_for, script_for
from penstock.cli.failures import Misuse
from penstock.cli.main import main


def names(line: str) -> list[str]:
    """Candidates for the last word; the line ends with a blank for a new one."""
    words = line.split(" ")
    known = {"topic": ["orders", "other"], "group": ["billing"]}
    return [found.value for found in candidates(words, lambda kind: known.get(kind, []))]


def test_commands_are_completed() -> None:
    assert names("penstock se") == ["serve", "settings"]
    assert "complete" not in names("penstock ")


def test_commands_of_a_group_are_completed() -> None:
    assert names("penstock storage f") == ["format"]


def test_options_are_completed_except_those_already_given() -> None:
    assert names("penstock settings --t") == ["--topic"]
    assert names("penstock settings --topic --t") == []
    assert "--set" in names("penstock serve --set a=b --")


def test_values_of_an_option_are_completed() -> None:
    assert names("penstock serve --log-level w") == ["warning"]


def test_arguments_are_completed_by_their_kind() -> None:
    assert names("penstock completion ") == ["bash", "zsh", "fish"]
    assert names("penstock completion bash ") == []


def test_kafkas_scripts_are_completed() -> None:
    assert "--offsets-decoder" in names("bin/kafka-dump-log.sh --o")
    assert names("kafka-nothing.sh --o") == []


def test_each_shell_reads_its_own_form(capsys: pytest.CaptureFixture[str]) -> None:
    found = candidates(["penstock", "serv"], lambda kind: [])

    assert format_for("bash", found) == "serve\n"
    assert format_for("zsh", found).startswith("serve:Run a node")
    assert format_for("fish", found).startswith("serve\tRun a node")
    assert main(["complete", "bash", "--", "penstock", "serv"]) == 0
    assert capsys.readouterr().out == "serve\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_can_parse_the_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert script == script_for(shell)
    if found := shutil.which(shell):
        subprocess.run([found, "-n"], input=script, text=True, check=True)


def test_the_default_is_the_users_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert script_for(None) == script_for("fish")
    monkeypatch.setenv("SHELL", "/bin/csh")
    with pytest.raises(Misuse, match="name a shell"):
        script_for(None)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("penstock topics or", "<penstock><topics><or>"),
        ("penstock consume -b h:1 ", "<penstock><consume><-b><h:1><>"),
    ],
)
def test_bash_passes_the_line_unchanged(line: str, words: str) -> None:
    """The function that the script defines, called as bash calls it; what comes back is what can be chosen from."""
    script = script_for("bash") + (
        "penstock() { shift 3; printf '<%s>' \"$@\"; }\n"
        f'COMP_LINE="{line}"; COMP_POINT={len(line)}; _penstock_complete; echo "${{COMPREPLY[@]}}"\n'
    )

    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout == f"{words}\n"
