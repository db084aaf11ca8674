"""Signals of the test run itself, which every process that a test starts inherits.

A run that was started in the background or by `nohup` ignores SIGINT or SIGHUP, and so would all of its children: tests
that press Ctrl-C would wait for a process that never hears it.
"""

from __future__ import annotations

import signal

# Those that a shell, `nohup` or a CI runner may have switched off, and that tests send.
INHERITED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def restore_signals() -> None:
    """Let this process and its children see signals as if they were started in the foreground.

    SIGINT raises KeyboardInterrupt again, which tests of Ctrl-C in their own process need. This process goes on
    ignoring the others, so that `nohup pytest` survives its terminal. Children do not ignore them: a handler does not
    survive `exec`.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INHERITED)
    for number in INHERITED:
        if signal.getsignal(number) is signal.SIG_IGN:
            is_interrupt = number is signal.SIGINT
            signal.signal(number, signal.default_int_handler if is_interrupt else _ignore)


def _ignore(number: int, frame: object) -> None:
    pass
