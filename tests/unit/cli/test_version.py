"""`penstock version`."""

from __future__ import annotations

import json

import pytest

import penstock
from penstock.cli.main import main


def test_the_version_is_a_line_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"penstock {penstock.__version__}\n"
    assert main(["version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"version": penstock.__version__}


def test_more_shows_the_platform(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "--more"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["version", "python", "system", "uvloop"]
    assert main(["version", "--more", "--json"]) == 0
    assert json.loads(capsys.readouterr().out).keys() == set(names)
