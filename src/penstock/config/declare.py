"""How a setting is declared.

A row of a table names the type, then the facts, then the meaning:

    integer("num.partitions", 1, at_least(1)).means("Partitions of a topic that is created without saying how many."),

The last word tells what the setting is worth here: `means` for one that is in force, `not_yet` for one whose feature
is still to come, `no_meaning` for one that speaks of the JVM or of a design that Penstock does not share. All three are
accepted and validated alike. A declaration is never changed after it is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from penstock.config.errors import BadSetting
from penstock.config.values import TYPE_WORDS, NotOfType, SettingType, parse, show

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


class Importance(Enum):
    """How likely it is that an operator has to know the setting."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Dynamic(Enum):
    """Whether a broker's setting changes while it runs, and whether for one broker only. The words are Kafka's."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Standing(Enum):
    """What a setting is worth here, and the sentence that its documentation ends with."""

    IN_FORCE = ""
    NOT_YET = " Accepted, but not in force in this version."
    NO_MEANING = " Accepted, but without meaning here."


HIGH, MEDIUM, LOW = Importance
READ_ONLY, PER_BROKER, CLUSTER_WIDE = Dynamic


class Rule(NamedTuple):
    """Which values of the right type are allowed, as a test and as words."""

    accepts: Callable[[Any], bool]
    words: str


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    type: SettingType
    default: Any
    rule: Rule | None
    importance: Importance
    dynamic: Dynamic
    is_internal: bool
    """Kafka keeps it out of its documentation and out of DescribeConfigs, unless it was set."""
    doc: str
    standing: Standing

    @property
    def applies(self) -> bool:
        return self.standing is Standing.IN_FORCE

    @property
    def is_sensitive(self) -> bool:
        return self.type is SettingType.PASSWORD

    @property
    def documentation(self) -> str:
        return self.doc + self.standing.value

    @property
    def allowed(self) -> str:
        words = TYPE_WORDS[self.type]
        return f"{words}, {self.rule.words}" if self.rule else words

    def parse(self, text: str) -> Any:
        """The value that the text stands for, or `BadSetting`."""
        try:
            value = parse(self.type, text)
        except NotOfType:
            raise self.refusal(text) from None
        if self.rule is not None and not self.rule.accepts(value):
            raise self.refusal(text)
        return value

    def show(self, value: Any) -> str | None:
        """The text of a value for DescribeConfigs and logs. A secret stays hidden."""
        return show(self.type, value)

    def refusal(self, text: str) -> BadSetting:
        return BadSetting(self.name, None if self.is_sensitive else text, f"must be {self.allowed}")


class Draft(NamedTuple):
    """A setting that still lacks its meaning."""

    name: str
    type: SettingType
    default: Any
    rule: Rule | None
    importance: Importance
    dynamic: Dynamic
    is_internal: bool

    def means(self, doc: str) -> Setting:
        """In force: changing it changes what Penstock does."""
        return Setting(*self, doc, Standing.IN_FORCE)

    def not_yet(self, doc: str) -> Setting:
        """Taken and shown, while the feature that it steers is still to come."""
        return Setting(*self, doc, Standing.NOT_YET)

    def no_meaning(self, doc: str) -> Setting:
        """Taken so that a file written for Kafka is read unchanged; there is nothing here that it could steer."""
        return Setting(*self, doc, Standing.NO_MEANING)


def _draft(
    kind: SettingType,
    name: str,
    default: Any = None,
    rule: Rule | None = None,
    importance: Importance = MEDIUM,
    dynamic: Dynamic = READ_ONLY,
    *,
    is_internal: bool = False,
) -> Draft:
    return Draft(name, kind, default, rule, importance, dynamic, is_internal)


boolean = partial(_draft, SettingType.BOOLEAN)
short = partial(_draft, SettingType.SHORT)
integer = partial(_draft, SettingType.INT)
long = partial(_draft, SettingType.LONG)
double = partial(_draft, SettingType.DOUBLE)
string = partial(_draft, SettingType.STRING)
items = partial(_draft, SettingType.LIST)
class_name = partial(_draft, SettingType.CLASS)
secret = partial(_draft, SettingType.PASSWORD)


def at_least(low: int) -> Rule:
    return Rule(lambda value: value >= low, f"at least {low}")


def between(low: float, high: float) -> Rule:
    return Rule(lambda value: low <= value <= high, f"from {low} to {high}")


def one_of(*choices: str) -> Rule:
    return Rule(choices.__contains__, f"one of {', '.join(choices)}")


def one_of_any_case(*choices: str) -> Rule:
    return Rule(
        lambda value: value.upper() in choices, f"one of {', '.join(choices)}, in upper or lower case"
    )


def some_of(*choices: str, may_be_empty: bool = False) -> Rule:
    """A list of some of the choices, none of them twice."""
    words = f"of {', '.join(choices)}, each at most once" + ("" if may_be_empty else ", and at least one")

    def accepts(values: tuple[str, ...]) -> bool:
        return (may_be_empty or bool(values)) and _are_distinct(values) and all(v in choices for v in values)

    return Rule(accepts, words)


def _are_distinct(values: tuple[str, ...]) -> bool:
    return len(set(values)) == len(values) and "" not in values


DISTINCT = Rule(_are_distinct, "whose items are neither empty nor repeated")
DISTINCT_SOME = Rule(
    lambda values: bool(values) and _are_distinct(values),
    "of at least one item, whose items are neither empty nor repeated",
)
NOT_EMPTY = Rule(bool, "not empty")
