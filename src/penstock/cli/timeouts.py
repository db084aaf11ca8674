"""How long a command waits for a broker: one rule for all commands.

After 5 seconds the command prints to stderr which address it waits for and why (`client.reachability` decides when).
After `TIMEOUT_S`, or the time that `--timeout` or the settings give, it fails. Ctrl-C stops it at any time.

Every client of a command gets settings that went through `for_calls` or `for_producer`. Exceptions: once they read,
`consume --follow` and Kafka's console consumer wait until the broker is back, and completion gives up at once.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping

TIMEOUT_S = 30  # three attempts at an address that drops packets; half of a program's default

CALL_TIMEOUT = "default.api.timeout.ms"  # of consumers and admins
SEND_TIMEOUT = "max.block.ms"  # of producers
REQUEST_TIMEOUT = "request.timeout.ms"
REQUEST_TIMEOUT_MS = 30_000  # by default

STOP_HINT = "Ctrl-C stops"


def timeout_settings(seconds: float) -> dict[str, str]:
    """The settings that `--timeout` stands for, for clients of all kinds."""
    milliseconds = str(round(seconds * 1000))
    return {CALL_TIMEOUT: milliseconds, SEND_TIMEOUT: milliseconds}


def for_calls(settings: Mapping[str, object]) -> dict[str, object]:
    """For an admin client or a consumer. A call must have time for one request, so whichever of the two timeouts is
    not set follows the other."""
    bounded = dict(settings)
    bounded.pop(SEND_TIMEOUT, None)
    if CALL_TIMEOUT not in bounded:
        bounded[CALL_TIMEOUT] = str(max(TIMEOUT_S * 1000, _number(bounded.get(REQUEST_TIMEOUT))))
    elif REQUEST_TIMEOUT not in bounded and 0 <= _number(bounded[CALL_TIMEOUT]) < REQUEST_TIMEOUT_MS:
        bounded[REQUEST_TIMEOUT] = bounded[CALL_TIMEOUT]
    return bounded


def for_producer(settings: Mapping[str, object]) -> dict[str, object]:
    bounded = {SEND_TIMEOUT: str(TIMEOUT_S * 1000), **settings}
    bounded.pop(CALL_TIMEOUT, None)
    return bounded


def _number(value: object) -> int:
    """0 if it is not a number: the client rejects it and names the setting."""
    try:
        return int(str(value))
    except ValueError:
        return 0


def show_warnings() -> None:
    """Print warnings of clients to stderr, in the form of all our messages. May be called again."""
    logger = logging.getLogger("penstock.client")
    if not any(isinstance(handler, _Warnings) for handler in logger.handlers):
        logger.addHandler(_Warnings(logging.WARNING))


def hide_warnings() -> None:
    """For a full-screen command, which shows problems on the screen."""
    logging.getLogger("penstock.client").setLevel(logging.CRITICAL)


class _Warnings(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        hint = f" ({STOP_HINT})" if record.name.endswith(".reachability") else ""
        print(f"penstock: {record.getMessage()}{hint}", file=sys.stderr, flush=True)
