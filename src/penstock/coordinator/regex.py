"""Regular expressions of strangers, in RE2's syntax, as Kafka's brokers take them (KIP-848, KIP-1152).

Anybody may send a pattern, so the engine must be one whose time grows with the text and not with the pattern's
wit: Google's RE2, which Kafka uses in its Java form. Its memory is bounded too, and a pattern that would need more is
refused. This module alone knows the library.
"""

from __future__ import annotations

from collections.abc import Callable

import re2  # type: ignore[import-untyped]

from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode

MEMORY_BYTES_MAX = 8 << 20  # of one compiled pattern, as RE2 would have it; more is refused

Matches = Callable[[str], object]
"""Something true where the whole text matches."""


def compile_regex(pattern: str) -> Matches:
    """`Refused` where it is not a regular expression."""
    try:
        re2.compile(pattern, OPTIONS)  # for its words; a set has none
    except re2.error as error:
        raise Refused(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"Invalid regular expression `{pattern}` (RE2/J syntax): {_words(error)}.",
        ) from error
    # A set of one: asking it is eight times as fast as asking a pattern, which reports where each group matched.
    compiled = re2.Set.FullMatchSet(OPTIONS)
    compiled.Add(pattern)
    compiled.Compile()
    matches: Matches = compiled.Match
    return matches


def _options() -> re2.Options:
    options = re2.Options()
    options.max_mem = MEMORY_BYTES_MAX
    options.log_errors = False  # the words go to the client that sent the pattern
    return options


OPTIONS = _options()


def _words(error: re2.error) -> str:
    words = error.args[0] if error.args else ""
    return words.decode("utf-8", "replace") if isinstance(words, bytes) else str(words)
