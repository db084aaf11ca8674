"""Whatever goes wrong, in one sentence with what to do next, and as an exit status.

A command lets its exceptions rise; `guard` stands around every one of them. What is expected to happen (a broker
that is not there, a topic that does not exist, a file that cannot be read, Ctrl-C) is a sentence on stderr. What is
not expected is a fault of Penstock's own and shows its traceback: hiding it would help nobody.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FAILED = 1
MISUSED = 2
INTERRUPTED = 130  # 128 and the number of SIGINT, as shells have it
TERMINATED = 143  # and of SIGTERM

DEBUG_VARIABLE = "PENSTOCK_DEBUG"  # set to anything: tracebacks of expected failures too

# What helps where the operating system says no.
REMEDIES = {
    errno.EACCES: "choose one that you may use, or ask its owner",
    errno.EPERM: "choose one that you may use, or ask its owner",
    errno.EROFS: "choose a place that can be written to",
    errno.ENOSPC: "make room on the disk, or choose another one",
    errno.ENOENT: "see that the name is right",
    errno.EISDIR: "name a file in it",
    errno.ECONNREFUSED: "see that a broker runs there (`penstock serve`), and that --bootstrap-server names it",
}


class Refusal(Exception):
    """What a command does not do, in words for the one who asked; `status` is the exit status."""

    def __init__(self, words: str, *, status: int = FAILED) -> None:
        super().__init__(words)
        self.status = status


class Misuse(Refusal):
    """What was said to a command contradicts itself, or makes no sense."""

    def __init__(self, words: str) -> None:
        super().__init__(words, status=MISUSED)


class Terminated(KeyboardInterrupt):
    """SIGTERM, which asks for the same as Ctrl-C: `timeout 5 penstock consume ...` has its say, too."""


class Stopped(KeyboardInterrupt):
    """Either of them, with what was done until then; it is raised from the one that it was."""


@contextmanager
def account(tell: Callable[[], str]) -> Iterator[None]:
    """Have Ctrl-C say what was done so far: `with account(lambda: f"{count} records were written"):`"""
    try:
        yield
    except Stopped:
        raise
    except KeyboardInterrupt as stop:
        raise Stopped(tell()) from stop


def guard(work: Callable[[], int]) -> int:
    """Do it; the exit status, also where it fails."""
    try:
        with _heeding_sigterm():
            status = work()
        sys.stdout.flush()  # here, where a reader who has gone can still be met with words, rather than at the very end
        return status
    except BrokenPipeError:
        _forget_stdout()
        return 0
    except KeyboardInterrupt as stop:
        told = f": {stop}" if str(stop) else ""
        print(f"\npenstock: stopped{told}", file=sys.stderr)
        return status_of(stop)
    except Exception as problem:
        words = describe(problem)
        if words is None or os.environ.get(DEBUG_VARIABLE):
            raise
        print(f"penstock: {words}", file=sys.stderr)
        return problem.status if isinstance(problem, Refusal) else FAILED


def status_of(stop: KeyboardInterrupt) -> int:
    """The exit status of what was stopped from outside."""
    return (
        TERMINATED if isinstance(stop, Terminated) or isinstance(stop.__cause__, Terminated) else INTERRUPTED
    )


@contextmanager
def _heeding_sigterm() -> Iterator[None]:
    """SIGTERM as an exception, unless a handler is installed already; a node installs its own later."""
    before = signal.getsignal(signal.SIGTERM)
    is_ours = threading.current_thread() is threading.main_thread() and before in (
        signal.SIG_DFL,
        signal.SIG_IGN,  # SIGTERM ends a command no matter how it was started
    )
    if is_ours:
        signal.signal(signal.SIGTERM, _raise_terminated)
    try:
        yield
    finally:
        if is_ours:
            signal.signal(signal.SIGTERM, before)


def _raise_terminated(number: int, frame: object) -> None:
    raise Terminated


def describe(problem: BaseException) -> str | None:
    """The sentence for a failure that can be expected, or None for one that is a fault of ours."""
    if isinstance(problem, Refusal):
        return str(problem)
    if _is_one_of(problem, "penstock.client.errors.base", "PenstockError"):
        from penstock.cli.suggestions import sentence

        return sentence(problem)  # type: ignore[arg-type]  # its class is loaded only if it was raised
    if _is_one_of(problem, "penstock.config.errors", "BadSetting"):
        return str(problem)
    if isinstance(problem, UnicodeError):
        return f"this is not text in UTF-8: {problem}"
    if isinstance(problem, OSError):
        words = problem.strerror or str(problem)
        if problem.filename is not None:
            words = f"{problem.filename}: {words}"
        remedy = REMEDIES.get(problem.errno or 0)
        return f"{words}; {remedy}" if remedy else words
    return None


def _is_one_of(problem: BaseException, module: str, name: str) -> bool:
    """Whether it has this class. The module is loaded if one of its exceptions was raised."""
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(problem, kind)


def _forget_stdout() -> None:
    """Whoever read our output has gone (`| head`). The interpreter must not find that out again when it ends."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):  # not a real stdout: nothing will be flushed at the end
        pass
