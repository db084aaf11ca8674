"""How a setting is declared.

A row of a table names the type, then the facts, then the meaning:

    integer("num.partitions", 1, at_least(1)).means("The default number of partitions of a new topic."),

The last call says how Penstock supports the setting: `means` (supported), `not_yet` (the feature is not implemented),
or `ignored` (it concerns the JVM, or a part of Kafka that Penstock does not have). All three are accepted and
validated. A declaration is immutable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from penstock.config.errors import BadSetting
from penstock.config.values import TYPE_DESCRIPTIONS, NotOfType, SettingType, parse, show

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


class Importance(Enum):
    """How important the setting is to an operator, as in Kafka's documentation."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Dynamic(Enum):
    """Whether a broker setting can change at run time, and for which brokers. The values are Kafka's."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Support(Enum):
    """Whether Penstock implements a setting, and the sentence that is added to its documentation."""

    SUPPORTED = ""
    NOT_YET = " Accepted, but not implemented yet: it has no effect."
    IGNORED = " Accepted for compatibility with Kafka: it has no effect."


HIGH, MEDIUM, LOW = Importance
READ_ONLY, PER_BROKER, CLUSTER_WIDE = Dynamic


class Rule(NamedTuple):
    """Which values of the right type are allowed, as a predicate and as text."""

    accepts: Callable[[Any], bool]
    text: str


@dataclass(frozen=True, slots=True)
class Setting:
    """The declaration of a setting."""

    name: str
    type: SettingType
    default: Any
    rule: Rule | None
    importance: Importance
    dynamic: Dynamic
    is_internal: bool
    """Kafka does not document it, and DescribeConfigs returns it only if it was set."""
    doc: str
    support: Support

    @property
    def applies(self) -> bool:
        return self.support is Support.SUPPORTED

    @property
    def is_sensitive(self) -> bool:
        return self.type is SettingType.PASSWORD

    @property
    def documentation(self) -> str:
        return self.doc + self.support.value

    @property
    def allowed(self) -> str:
        description = TYPE_DESCRIPTIONS[self.type]
        return f"{description}, {self.rule.text}" if self.rule else description

    def parse(self, text: str) -> Any:
        """Parse and validate the text; raise `BadSetting` if it is invalid."""
        try:
            value = parse(self.type, text)
        except NotOfType:
            raise self.refusal(text) from None
        if self.rule is not None and not self.rule.accepts(value):
            raise self.refusal(text)
        return value

    def show(self, value: Any) -> str | None:
        """Format a value for DescribeConfigs and logs. A password is hidden."""
        return show(self.type, value)

    def refusal(self, text: str) -> BadSetting:
        return BadSetting(self.name, None if self.is_sensitive else text, f"must be {self.allowed}")


class Draft(NamedTuple):
    """A setting without its documentation."""

    name: str
    type: SettingType
    default: Any
    rule: Rule | None
    importance: Importance
    dynamic: Dynamic
    is_internal: bool

    def means(self, doc: str) -> Setting:
        """The setting is supported."""
        return Setting(*self, doc, Support.SUPPORTED)

    def not_yet(self, doc: str) -> Setting:
        """The setting is accepted, but its feature is not implemented yet."""
        return Setting(*self, doc, Support.NOT_YET)

    def ignored(self, doc: str) -> Setting:
        """The setting is accepted so that a file written for Kafka can be used unchanged; it never has an effect."""
        return Setting(*self, doc, Support.IGNORED)


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
    """A list of distinct values, each one of the choices."""
    text = f"of {', '.join(choices)}, each at most once" + ("" if may_be_empty else ", and at least one")

    def accepts(values: tuple[str, ...]) -> bool:
        return (may_be_empty or bool(values)) and _are_distinct(values) and all(v in choices for v in values)

    return Rule(accepts, text)


def _are_distinct(values: tuple[str, ...]) -> bool:
    return len(set(values)) == len(values) and "" not in values


DISTINCT = Rule(_are_distinct, "whose items are neither empty nor repeated")
DISTINCT_SOME = Rule(
    lambda values: bool(values) and _are_distinct(values),
    "of at least one item, whose items are neither empty nor repeated",
)
NOT_EMPTY = Rule(bool, "not empty")
