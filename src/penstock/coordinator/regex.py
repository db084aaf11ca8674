"""Regular expressions from clients, in RE2's syntax, as in Kafka's brokers (KIP-848, KIP-1152).

Any client may send a pattern, so matching must take linear time: Google's RE2 does, and Kafka uses its Java version.
Its memory is bounded too; a pattern that needs more is refused. Only this module uses the library.
"""

from __future__ import annotations

from collections.abc import Callable

import re2  # type: ignore[import-untyped]

from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode

MEMORY_BYTES_MAX = 8 << 20  # of one compiled pattern, RE2's default; a pattern that needs more is refused

Matches = Callable[[str], object]
"""Returns a true value if the whole text matches."""


def compile_regex(pattern: str) -> Matches:
    """`Refused` if it is not a valid regular expression."""
    try:
        re2.compile(pattern, OPTIONS)  # for its error message; a set has none
    except re2.error as error:
        raise Refused(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"Invalid regular expression `{pattern}` (RE2/J syntax): {_message(error)}.",
        ) from error
    # A set of one pattern matches eight times as fast as the pattern itself, which also reports its groups.
    compiled = re2.Set.FullMatchSet(OPTIONS)
    compiled.Add(pattern)
    compiled.Compile()
    matches: Matches = compiled.Match
    return matches


def _options() -> re2.Options:
    options = re2.Options()
    options.max_mem = MEMORY_BYTES_MAX
    options.log_errors = False  # the client that sent the pattern gets the message
    return options


OPTIONS = _options()


def _message(error: re2.error) -> str:
    message = error.args[0] if error.args else ""
    return message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
