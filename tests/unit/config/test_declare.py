"""Accepted values of a declaration, and its errors."""

from __future__ import annotations

import pytest

from penstock.config.declare import (
    DISTINCT,
    DISTINCT_SOME,
    NOT_EMPTY,
    Rule,
    at_least,
    between,
    integer,
    items,
    one_of,
    one_of_any_case,
    secret,
    some_of,
    string,
)
from penstock.config.errors import BadSetting, unknown_setting


@pytest.mark.parametrize(
    ("rule", "taken", "refused"),
    [
        (at_least(1), [1, 2], [0]),
        (between(0, 0.5), [0, 0.5], [-1, 0.51]),
        (one_of("a", "b"), ["a"], ["A", ""]),
        (one_of_any_case("ES256"), ["es256", "ES256"], ["x"]),
        (some_of("a", "b"), [("a",), ("b", "a")], [(), ("a", "a"), ("c",)]),
        (some_of("a", "b", may_be_empty=True), [(), ("a",)], [("a", "a")]),
        (DISTINCT, [(), ("a", "b")], [("a", "a"), ("a", "")]),
        (DISTINCT_SOME, [("a",)], [(), ("a", "a")]),
        (NOT_EMPTY, ["a"], [""]),
    ],
)
def test_a_rule_describes_the_allowed_values(rule: Rule, taken: list[object], refused: list[object]) -> None:
    assert all(rule.accepts(value) for value in taken)
    assert not any(rule.accepts(value) for value in refused)


def test_an_error_names_key_value_and_the_allowed_values() -> None:
    setting = integer("num.partitions", 1, at_least(1)).means("How many.")

    with pytest.raises(BadSetting) as refusal:
        setting.parse("none")

    assert str(refusal.value) == "num.partitions=none: must be a 32-bit integer, at least 1"
    assert (refusal.value.key, refusal.value.value) == ("num.partitions", "none")


def test_a_refused_secret_stays_secret() -> None:
    setting = secret("key.password", None, Rule(lambda _: False, "never right")).means("Hush.")

    with pytest.raises(BadSetting) as refusal:
        setting.parse("hush")

    assert "hush" not in str(refusal.value)
    assert refusal.value.value is None


def test_the_documentation_says_whether_the_setting_has_an_effect() -> None:
    in_force = string("a").means("What it does.")
    to_come = string("b").not_yet("What it does.")
    foreign = string("c").ignored("What it did.")

    assert in_force.documentation == "What it does."
    assert to_come.documentation == "What it does. Accepted, but not implemented yet: it has no effect."
    assert foreign.documentation == "What it did. Accepted for compatibility with Kafka: it has no effect."
    assert (in_force.applies, to_come.applies, foreign.applies) == (True, False, False)


def test_a_list_is_shown_with_commas() -> None:
    assert items("a").means("Some.").show(("x", "y")) == "x,y"


def test_the_error_for_an_unknown_name_suggests_the_closest() -> None:
    error = unknown_setting("nmu.partitions", ["num.partitions", "log.dirs"], where="a broker")

    assert str(error) == "nmu.partitions: not a setting of a broker; did you mean num.partitions?"


def test_the_error_for_a_name_without_a_close_match_says_where_to_look() -> None:
    assert "penstock settings" in str(unknown_setting("zzz", ["num.partitions"], where="a broker"))
