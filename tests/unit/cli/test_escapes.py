"""Escapes in options."""

from __future__ import annotations

import pytest

from penstock.cli.escapes import unescape


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (r"\t", "\t"),
        (r"\n", "\n"),
        (r"\x00", "\x00"),
        (r"\0", "\0"),
        (r"\\", "\\"),
        (r"\\t", r"\t"),
        (r"a\tb", "a\tb"),
        ("\t", "\t"),
        ("|", "|"),
        ("\\", "\\"),
        (r"\q", r"\q"),
    ],
)
def test_escapes_stand_for_characters(typed: str, meant: str) -> None:
    assert unescape(typed) == meant
