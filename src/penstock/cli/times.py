"""Points in time as users type them: `2026-01-31T12:00:00Z`, `2026-01-31`, or how long ago, `15m`."""

from __future__ import annotations

import re
from datetime import UTC, datetime

AGO = re.compile(r"(\d+)(ms|s|m|h|d)")
AGO_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

EXAMPLES = "a time such as 2026-01-31T12:00:00Z, or how long ago, such as 15m"


def parse_time(text: str, *, now_ms: int) -> int | None:
    """Milliseconds since 1970, or None if the text is not a time. Without a time zone it is UTC."""
    if ago := AGO.fullmatch(text):
        return now_ms - int(ago[1]) * AGO_MS[ago[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
