"""The declaration of one option or argument, and the one parser that reads command lines by it.

Our commands declare flags on their functions (`declare`), Kafka's tools in a `Tool` (`kafka.tool`). The same
declaration drives parsing, `--help` and shell completion. A `Style` holds the differences: the wording of
errors, and which spellings are accepted.

Every command line passes through this module, so importing it must stay cheap.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

Names = tuple[str, ...]
Rules = Names | Mapping[str, str]  # names of other flags; a mapping gives the error message for each


class UsageError(Exception):
    """The command line does not fit the declaration. The message is shown to the user."""


class HelpRequested(Exception):
    """`--help`."""


class Flag(NamedTuple):
    """One option or argument. Without `names` it is positional; type `bool` makes it a switch."""

    name: str  # the key of its value: the long name without dashes, or the parameter of the function
    help: str
    names: Names = ()
    aliases: Names = ()  # older names: accepted, but not shown in help or completion
    superseded: Names = ()  # those of `names` and `aliases` whose values a current name overrides
    type: type = str  # str, int, float or bool
    metavar: str | None = None
    default: Any = None
    is_required: bool = False
    is_repeatable: bool = False
    is_hidden: bool = False
    choices: Names = ()
    minimum: float | None = None
    maximum: float | None = None
    env: str | None = None  # environment variable that is read if the option is not given
    complete: str | None = None  # the kind of name that completes it: "topic", "group", "setting", "file"
    takes_rest: bool = False  # several values may follow: `--producer-props a=b c=d`
    has_optional_value: bool = False  # `--state`, or `--state Stable`
    implied: str | None = None  # the value if none follows: `--compression-codec` alone means gzip
    needs: Rules = ()  # flags that must be given too; "a|b" is either of them
    forbids: Rules = ()  # flags that must not be given too
    bundle: str | None = None  # the function's parameter whose field this is

    @property
    def is_switch(self) -> bool:
        return self.type is bool

    @property
    def shown(self) -> str:
        return self.names[0] if self.names else self.metavar or self.name.upper()


class OneOf(NamedTuple):
    """Exactly one of these flags must be given; if not `is_required`, at most one."""

    flags: Names
    message: str | None = (
        None  # needed if `is_required`; by default `Style.forbidden`, with the first two given
    )
    is_required: bool = True
    action: str | None = None  # the rule applies only if this flag is given


class Style(NamedTuple):
    """How a family of commands words its errors, and what it accepts."""

    unknown: str = "unknown option {name}"
    no_value: str = "{name} needs a value"
    unwanted_value: str | None = "{name} takes no value"  # None: the value is ignored
    unexpected: str = "unexpected argument '{word}'"
    required: str = "{name} is required"
    needed: str = "{flag} needs {name}"
    forbidden: str = "{flag} cannot be combined with {name}"
    abbreviates: bool = False  # any unambiguous prefix of a long name
    has_short_values: bool = True  # `-p3`, and `-ab` for `-a -b`


PENSTOCK = Style()
SUGGESTIONS_MAX = 2


class Parsed(NamedTuple):
    values: dict[str, list[str]]  # by `Flag.name`; a switch that was given has no values
    words: list[str]  # words that belong to no option


def parse(flags: Sequence[Flag], words: Sequence[str], style: Style) -> Parsed:
    """Sort the words of a command line by flag, or raise `UsageError`."""
    by_name = {name: flag for flag in flags for name in (*flag.names, *flag.aliases)}
    parsed = Parsed({}, [])
    superseded: dict[str, list[str]] = {}
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        if word == "--":
            parsed.words.extend(reversed(rest))
            break
        if not word.startswith("-") or word == "-":
            parsed.words.append(word)
            continue
        flag, name, value = _match(word, by_name, rest, style)
        values = (superseded if name in flag.superseded else parsed.values).setdefault(flag.name, [])
        if flag.is_switch:
            if value is not None and style.unwanted_value is not None:
                raise UsageError(style.unwanted_value.format(name=name))
        elif value is not None:
            values.append(value)
        elif flag.has_optional_value and (not rest or rest[-1].startswith("-")):
            values += [] if flag.implied is None else [flag.implied]
        elif not rest:
            raise UsageError(style.no_value.format(name=name, key=flag.name))
        else:
            values.append(rest.pop())
            while flag.takes_rest and rest and not rest[-1].startswith("-"):
                values.append(rest.pop())
    for name, values in superseded.items():  # the last value wins
        parsed.values[name] = values + parsed.values.get(name, [])
    return parsed


def _match(
    word: str, by_name: Mapping[str, Flag], rest: list[str], style: Style
) -> tuple[Flag, str, str | None]:
    """The flag of a word that begins with a dash, the name used, and the value in the same word."""
    if word in by_name:
        return by_name[word], word, None
    name, separator, text = word.partition("=")
    value = text if separator else None
    if name in by_name:
        return by_name[name], name, value
    if style.has_short_values and not word.startswith("--") and word[:2] in by_name:
        flag = by_name[word[:2]]
        if not flag.is_switch:
            return flag, word[:2], word[2:]
        rest.append(f"-{word[2:]}")
        return flag, word[:2], None
    if style.abbreviates and name.startswith("--"):
        found = {flag.name: known for known, flag in by_name.items() if known.startswith(name)}
        if len(found) == 1:
            known = next(iter(found.values()))
            return by_name[known], known, value
    raise UsageError(style.unknown.format(name=name, key=name.lstrip("-")) + suggest(name, by_name, style))


def suggest(name: str, known: Iterable[str], style: Style = PENSTOCK) -> str:
    """`. Did you mean ...?` with up to two names: those that begin with the word, or else the similar ones.

    Kafka's tools do not suggest."""
    word = name.lstrip("-")
    if style is not PENSTOCK or not word:
        return ""
    names = {each.lstrip("-"): each for each in known}
    close = [each for each in names if each.startswith(word)]
    if not close:
        import difflib  # only errors pay for the import

        similar = difflib.get_close_matches(word, names, n=SUGGESTIONS_MAX, cutoff=0.6)
        ends = [each for each in names if len(each) > 1 and word.endswith(f"-{each}")]
        ends += [each for each in names if each.endswith(f"-{word}")]
        close = list(dict.fromkeys([*ends, *similar]))
    shown = " or ".join(names[each] for each in close[:SUGGESTIONS_MAX])
    return f". Did you mean {shown}?" if shown else ""


def check_rules(
    flags: Iterable[Flag], given: Mapping[str, object], one_of: Sequence[OneOf], style: Style
) -> None:
    """Raise `UsageError` if a flag is missing, or flags contradict each other."""
    known = {flag.name: flag for flag in flags}
    for flag in known.values():
        if flag.is_required and flag.name not in given:
            raise UsageError(style.required.format(name=flag.shown, key=flag.name))
    _check_choices([choice for choice in one_of if choice.action is None], known, given, style)

    def fail(wording: str, rules: Rules, name: str, flag: Flag) -> UsageError:
        message = rules.get(name, wording) if isinstance(rules, Mapping) else wording
        other = known[name.partition("|")[0]]
        return UsageError(
            message.format(name=other.shown, key=other.name, flag=flag.shown, flag_key=flag.name)
        )

    for flag in known.values():
        if flag.name not in given:
            continue
        for name in flag.needs:
            if not any(each in given for each in name.split("|")):
                raise fail(style.needed, flag.needs, name, flag)
        for name in flag.forbids:
            if name in given:
                raise fail(style.forbidden, flag.forbids, name, flag)
    _check_choices([choice for choice in one_of if choice.action in given], known, given, style)


def _check_choices(
    choices: Iterable[OneOf], known: Mapping[str, Flag], given: Mapping[str, object], style: Style
) -> None:
    for choice in choices:
        found = [known[name] for name in choice.flags if name in given]
        if len(found) == 1 or not (found or choice.is_required):
            continue
        if choice.message is not None:
            raise UsageError(choice.message)
        first, second = found[:2]
        raise UsageError(
            style.forbidden.format(flag=first.shown, flag_key=first.name, name=second.shown, key=second.name)
        )


# -- values of our own commands


def read_values(flags: Sequence[Flag], words: Sequence[str], one_of: Sequence[OneOf] = ()) -> dict[str, Any]:
    """The value of every flag, by name. Raises `UsageError`, or `HelpRequested` for --help."""
    try:
        parsed = parse(flags, words, PENSTOCK)
    except UsageError:
        if "--help" in words or "-h" in words:  # next to mistakes too
            raise HelpRequested from None
        raise
    given = parsed.values
    if "help" in given:
        raise HelpRequested
    left = parsed.words
    for flag in flags:
        if not flag.names and left:
            taken = len(left) if flag.is_repeatable else 1
            given[flag.name], left = left[:taken], left[taken:]
    if left:
        raise UsageError(PENSTOCK.unexpected.format(word=left[0]))
    for flag in flags:
        if flag.env and flag.name not in given and (text := os.environ.get(flag.env)):
            given[flag.name] = [text]
    check_rules(flags, given, one_of, PENSTOCK)
    return {flag.name: _value(flag, given) for flag in flags if flag.name != "help"}


def _value(flag: Flag, given: Mapping[str, list[str]]) -> Any:
    if flag.name not in given:
        return flag.default
    if flag.is_switch:
        return True
    values = [_convert(flag, text) for text in given[flag.name]]
    return values if flag.is_repeatable else values[-1]


def _convert(flag: Flag, text: str) -> str | int | float:
    if flag.choices and text not in flag.choices:
        raise UsageError(f"{flag.shown} {text}: must be one of {', '.join(flag.choices)}")
    if flag.type is str:
        return text
    try:
        number: int | float = flag.type(text)
    except ValueError:
        kind = "a whole number" if flag.type is int else "a number"
        raise UsageError(f"{flag.shown} {text}: must be {kind}") from None
    if flag.minimum is not None and number < flag.minimum:
        raise UsageError(f"{flag.shown} {text}: must be at least {flag.minimum:g}")
    if flag.maximum is not None and number > flag.maximum:
        raise UsageError(f"{flag.shown} {text}: must be at most {flag.maximum:g}")
    return number
