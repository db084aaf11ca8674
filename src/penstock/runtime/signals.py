"""Which signals a program may handle.

A shell starts background jobs with SIGINT ignored, and `nohup` starts a program with SIGHUP ignored. A program that
installs a handler anyway undoes that: Ctrl-C in a script stops the jobs it started in the background, and closing the
terminal stops what `nohup` was meant to protect. Java behaves the same way, so Kafka's scripts do too.
"""

from __future__ import annotations

import signal

# A supervisor stops a program by SIGTERM. It must work no matter how the program was started.
ALWAYS_HANDLED = (signal.SIGTERM,)


def signals_to_handle(*numbers: signal.Signals) -> tuple[signal.Signals, ...]:
    """Those of `numbers` that are not ignored. SIGTERM is always among them."""
    return tuple(
        number
        for number in numbers
        if number in ALWAYS_HANDLED or signal.getsignal(number) is not signal.SIG_IGN
    )
