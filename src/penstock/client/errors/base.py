"""The root of the tree, its two branches, and the families that are worth catching as one.

A `ClientError` was found here, before or instead of an answer; a `BrokerError` is what a broker answered, one class for
each code of `protocol.errors`. Either has the same three things to say: `retriable` (may the same call succeed
later?), `code` (what stood on the wire, or None) and words, which end with what to do next where there is something.

The words are put together when they are asked for. So `args` holds what the exception was made of, and nothing else is
needed to pickle one: a worker process can send it home.
"""

from __future__ import annotations

from typing import ClassVar

from penstock.protocol.errors import ErrorCode

__all__ = [
    "AuthenticationError",
    "AuthorizationError",
    "BrokerError",
    "ClientError",
    "CoordinatorUnavailable",
    "Fenced",
    "PenstockError",
    "StaleMetadata",
]

BY_CODE: dict[ErrorCode, type[BrokerError]] = {}


class PenstockError(Exception):
    """Everything that a client raises on purpose."""

    retriable: ClassVar[bool] = False
    """Whether the same call may succeed later, with nothing changed but the time."""
    code: ClassVar[ErrorCode | None] = None
    advice: str = ""
    """What to do about it, as the end of a sentence."""

    def __init__(self, words: str | None = None, *, about: object = None) -> None:
        super().__init__(words)
        self.words = words
        """What happened, in this case; the class has words of its own where nothing is said."""
        self.about = about
        """What it happened to: a topic, a partition, a group."""

    @property
    def what_happened(self) -> str:
        """The first half of the message: without what it is about, and without advice."""
        return self.words or self._own_words()

    def __str__(self) -> str:
        told = self.what_happened
        if self.about is not None:
            told = f"{self.about}: {told}"
        return f"{told.rstrip('.')}; {self.advice}" if self.advice else told

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def _own_words(self) -> str:
        sentence = (self.__doc__ or type(self).__name__).partition("\n")[0].rstrip(".")
        return sentence[:1].lower() + sentence[1:]


class ClientError(PenstockError):
    """Found by the client itself."""


class BrokerError(PenstockError):
    """Answered by a broker."""

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init_subclass__(cls, code: ErrorCode | None = None, **rest: object) -> None:
        super().__init_subclass__(**rest)
        if code is not None:  # a family has none
            assert code not in BY_CODE, f"{code.name} has two classes"
            cls.code = code
            cls.retriable = code.is_retriable
            cls.__doc__ = cls.__doc__ or f"{code.name} ({int(code)}): {code.message}."
            BY_CODE[code] = cls

    def _own_words(self) -> str:
        return self.code.message

    def __str__(self) -> str:
        # The name of the code is what a search for help needs.
        return f"{super().__str__()} [{self.code.name}]"


class AuthenticationError(PenstockError):
    """The two sides could not agree on who the client is, or who the broker is. Nothing else was tried."""


class AuthorizationError(BrokerError):
    """The broker knows who asks, and does not allow it."""

    advice = "ask whoever administers the cluster for the right, or log in as somebody else"


class Fenced(BrokerError):
    """Somebody newer has taken this one's place, so it must not go on."""


class StaleMetadata(BrokerError):
    """The client's picture of the cluster is old. It is refreshed and the call repeated, until its time is up."""


class CoordinatorUnavailable(BrokerError):
    """The coordinator of a group or transaction is moving or loading. The call is repeated, until its time is up."""
