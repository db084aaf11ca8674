"""What a declaration accepts, and how it refuses."""

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
def test_a_rule_tells_what_is_allowed(rule: Rule, taken: list[object], refused: list[object]) -> None:
    assert all(rule.accepts(value) for value in taken)
    assert not any(rule.accepts(value) for value in refused)


def test_a_refusal_names_key_value_and_what_is_allowed() -> None:
    setting = integer("num.partitions", 1, at_least(1)).means("How many.")

    with pytest.raises(BadSetting) as refusal:
        setting.parse("none")

    assert str(refusal.value) == "num.partitions=none: must be an integer of 32 bits, at least 1"
    assert (refusal.value.key, refusal.value.value) == ("num.partitions", "none")


def test_a_refused_secret_stays_secret() -> None:
    setting = secret("key.password", None, Rule(lambda _: False, "never right")).means("Hush.")

    with pytest.raises(BadSetting) as refusal:
        setting.parse("hush")

    assert "hush" not in str(refusal.value)
    assert refusal.value.value is None


def test_the_documentation_says_what_the_setting_is_worth_here() -> None:
    in_force = string("a").means("What it does.")
    to_come = string("b").not_yet("What it does.")
    foreign = string("c").no_meaning("What it did.")

    assert in_force.documentation == "What it does."
    assert to_come.documentation == "What it does. Accepted, but not in force in this version."
    assert foreign.documentation == "What it did. Accepted, but without meaning here."
    assert (in_force.applies, to_come.applies, foreign.applies) == (True, False, False)


def test_a_list_is_shown_with_commas() -> None:
    assert items("a").means("Some.").show(("x", "y")) == "x,y"


def test_an_unknown_name_is_answered_with_the_likeliest() -> None:
    error = unknown_setting("nmu.partitions", ["num.partitions", "log.dirs"], where="a broker")

    assert str(error) == "nmu.partitions: not a setting of a broker; did you mean num.partitions?"


def test_a_name_like_no_other_is_answered_with_where_to_look() -> None:
    assert "penstock settings" in str(unknown_setting("zzz", ["num.partitions"], where="a broker"))
