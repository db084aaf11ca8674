"""ISO 8601 durations, such as P2D, PT1H30M or PT0.5S, for offset resets by age."""

from __future__ import annotations

import re

from penstock.config.values import LONG_MAX

BY_DURATION = "by_duration:"

_DURATION = re.compile(
    r"P(?=[0-9T])(?:([0-9]+)D)?"
    r"(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)(?:\.([0-9]{0,9}))?S)?)?",
    re.IGNORECASE,
)


def is_duration(text: str) -> bool:
    return _DURATION.fullmatch(text) is not None


def parse_duration_ms(text: str) -> int:
    """Whole milliseconds; ValueError if the text is not a duration."""
    match = _DURATION.fullmatch(text)
    if match is None or len(text) > 64:
        raise ValueError(f"{text!r} is not a duration such as PT1H30M or P2D")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[:4])
    milliseconds = int(((match[5] or "") + "000")[:3])
    return min((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + milliseconds, LONG_MAX)


def is_by_duration(text: str) -> bool:
    """Whether the text is `by_duration:` and a duration, a value of auto.offset.reset."""
    return text.startswith(BY_DURATION) and is_duration(text.removeprefix(BY_DURATION))
