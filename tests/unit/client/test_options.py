"""Typed keywords, compared with the tables that declare the settings."""

from __future__ import annotations

import ssl
from typing import Any, get_args, get_type_hints

import pytest

from penstock.client import options
from penstock.client.settings import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from penstock.config.values import Secret, SettingType

KINDS: list[tuple[Any, type[ClientSettings]]] = [
    (options.ProducerOptions, ProducerSettings),
    (options.ConsumerOptions, ConsumerSettings),
    (options.AdminOptions, AdminSettings),
]
PLAIN = {
    SettingType.BOOLEAN: {bool},
    SettingType.SHORT: {int},
    SettingType.INT: {int},
    SettingType.LONG: {int},
    SettingType.DOUBLE: {float},
    SettingType.STRING: {str},
    SettingType.PASSWORD: {str, Secret},
}


def hints_of(typed: Any) -> dict[str, Any]:
    return get_type_hints(typed, localns={"SSLContext": ssl.SSLContext})


@pytest.mark.parametrize(("typed", "settings"), KINDS)
def test_every_setting_is_a_keyword_and_nothing_else_is(typed: Any, settings: type[ClientSettings]) -> None:
    names = {name.replace(".", "_") for name in settings.table()} | set(settings.short_names)

    assert set(hints_of(typed)) == names
    assert typed.__total__ is False


@pytest.mark.parametrize(("typed", "settings"), KINDS)
def test_a_keyword_has_the_type_of_its_setting(typed: Any, settings: type[ClientSettings]) -> None:
    hints = hints_of(typed)
    for name, setting in settings.table().items():
        members = set(get_args(hints[name.replace(".", "_")]))
        assert type(None) in members, name
        members -= {type(None)}
        literals = {value for member in members for value in get_args(member) if isinstance(value, str)}
        if setting.type is SettingType.STRING and literals:
            for choice in literals:
                settings.table()[name].parse(choice)
        elif setting.type in PLAIN:
            assert members == PLAIN[setting.type], name


@pytest.mark.parametrize(("typed", "settings"), KINDS)
def test_few_choices_are_literals(typed: Any, settings: type[ClientSettings]) -> None:
    hints = hints_of(typed)
    for name, setting in settings.table().items():
        if setting.rule is None or not setting.rule.text.startswith("one of ") or name == "auto.offset.reset":
            continue
        offered = {
            str(value).upper()
            for member in get_args(hints[name.replace(".", "_")])
            for value in get_args(member)
        }
        message = setting.rule.text.removeprefix("one of ").removesuffix(", in upper or lower case")
        assert offered == {choice.upper() for choice in message.split(", ")}, name
