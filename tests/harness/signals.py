"""Signal handling of the test run, which all processes started by tests inherit.

A run started in the background or by `nohup` ignores SIGINT or SIGHUP, and so would its children: tests that press
Ctrl-C would wait forever.
"""

from __future__ import annotations

import signal

# Signals that tests send, and that a shell, `nohup` or a CI runner may have disabled.
INHERITED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def restore_signals() -> None:
    """Handle signals as in a process that was started in the foreground, here and in child processes.

    SIGINT raises KeyboardInterrupt again, which tests of Ctrl-C in their own process need. This process keeps ignoring
    the others, so that `nohup pytest` survives its terminal. Children do not ignore them: a handler does not survive
    `exec`.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INHERITED)
    for number in INHERITED:
        if signal.getsignal(number) is signal.SIG_IGN:
            is_interrupt = number is signal.SIGINT
            signal.signal(number, signal.default_int_handler if is_interrupt else _ignore)


def _ignore(number: int, frame: object) -> None:
    pass
