"""Which signals a program should handle.

A shell starts background jobs with SIGINT ignored, and `nohup` starts a program with SIGHUP ignored. A program that
installs a handler anyway undoes that: Ctrl-C in a script would stop its background jobs, and closing the terminal would
stop a program started with `nohup`. Java, and so Kafka, behaves the same way.
"""

from __future__ import annotations

import signal

# Service managers stop a program with SIGTERM. It must work however the program was started.
ALWAYS_HANDLED = (signal.SIGTERM,)


def signals_to_handle(*numbers: signal.Signals) -> tuple[signal.Signals, ...]:
    """The signals of `numbers` that are not ignored. SIGTERM is always included."""
    return tuple(
        number
        for number in numbers
        if number in ALWAYS_HANDLED or signal.getsignal(number) is not signal.SIG_IGN
    )
