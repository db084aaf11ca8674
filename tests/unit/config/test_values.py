"""Text to value and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.values import NotOfType, Secret, SettingType, parse, show


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (SettingType.BOOLEAN, " TRUE ", True),
        (SettingType.BOOLEAN, "false", False),
        (SettingType.INT, "\t+7\n", 7),
        (SettingType.SHORT, "-32768", -32768),
        (SettingType.LONG, "9223372036854775807", 2**63 - 1),
        (SettingType.DOUBLE, "1e3", 1000.0),
        (SettingType.DOUBLE, ".5", 0.5),
        (SettingType.STRING, "  two words ", "two words"),
        (SettingType.LIST, "", ()),
        (SettingType.LIST, " a , b ", ("a", "b")),
        (SettingType.LIST, "a,", ("a", "")),
        (SettingType.PASSWORD, " hush ", Secret("hush")),
    ],
)
def test_text_is_parsed_by_type(kind: SettingType, text: str, value: object) -> None:
    assert parse(kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (SettingType.BOOLEAN, "yes"),
        (SettingType.BOOLEAN, ""),
        (SettingType.INT, "2147483648"),
        (SettingType.INT, "1_000"),
        (SettingType.INT, "0x10"),
        (SettingType.INT, "9" * 10_000),
        (SettingType.INT, "\u0663"),
        (SettingType.SHORT, "32768"),
        (SettingType.LONG, "1.0"),
        (SettingType.DOUBLE, "nan"),
        (SettingType.DOUBLE, "1_0.0"),
        (SettingType.DOUBLE, "infinity"),
    ],
)
def test_a_text_of_another_type_is_refused(kind: SettingType, text: str) -> None:
    with pytest.raises(NotOfType):
        parse(kind, text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (0.5, "0.5"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (0.0005, "5.0E-4"),
        (1e-9, "1.0E-9"),
        (9_999_999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (2147483647.0, "2.147483647E9"),
        (-12345678.9, "-1.23456789E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
    ],
)
def test_a_double_is_shown_as_java_shows_it(value: float, text: str) -> None:
    assert show(SettingType.DOUBLE, value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_shown_double_is_read_back(value: float) -> None:
    text = show(SettingType.DOUBLE, value)

    assert text is not None
    assert parse(SettingType.DOUBLE, text) == value


def test_a_missing_value_is_shown_as_none() -> None:
    assert show(SettingType.INT, None) is None


def test_a_secret_is_shown_only_on_request() -> None:
    secret = Secret("hush")

    assert "hush" not in f"{secret} {secret!r} {show(SettingType.PASSWORD, secret)}"
    assert secret.reveal() == "hush"
    assert secret != Secret("other")
    assert {secret: 1}[Secret("hush")] == 1
