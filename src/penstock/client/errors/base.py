"""The root of the tree, its two branches, and the families of errors.

A `ClientError` is raised by the client; a `BrokerError` is returned by a broker, with one class for each code of
`protocol.errors`. Every error has `retriable` (may the same call succeed later?), `code` (the error code of the
response, or None) and a message, which ends with advice where there is any.

The message is built on demand, so `args` holds only the constructor's arguments. That makes every error picklable: a
worker process can send it to its parent.
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
    """Base class of all exceptions of the client."""

    retriable: ClassVar[bool] = False
    """Whether the same call may succeed later, without any change."""
    code: ClassVar[ErrorCode | None] = None
    advice: str = ""
    """What to do about it: the end of the message."""

    def __init__(self, message: str | None = None, *, about: object = None) -> None:
        super().__init__(message)
        self.detail = message
        """What happened in this case. If None, the message of the class is used."""
        self.about = about
        """The topic, partition, group or other thing that the error is about."""

    @property
    def summary(self) -> str:
        """The message without `about` and without advice."""
        return self.detail or self._default_message()

    def __str__(self) -> str:
        text = self.summary
        if self.about is not None:
            text = f"{self.about}: {text}"
        return f"{text.rstrip('.')}; {self.advice}" if self.advice else text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def _default_message(self) -> str:
        sentence = (self.__doc__ or type(self).__name__).partition("\n")[0].rstrip(".")
        return sentence[:1].lower() + sentence[1:]


class ClientError(PenstockError):
    """Raised by the client itself."""


class BrokerError(PenstockError):
    """Returned by a broker."""

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init_subclass__(cls, code: ErrorCode | None = None, **rest: object) -> None:
        super().__init_subclass__(**rest)
        if code is not None:  # families have no code
            assert code not in BY_CODE, f"{code.name} has two classes"
            cls.code = code
            cls.retriable = code.is_retriable
            cls.__doc__ = cls.__doc__ or f"{code.name} ({int(code)}): {code.message}."
            BY_CODE[code] = cls

    def _default_message(self) -> str:
        return self.code.message

    def __str__(self) -> str:
        # Users search for help by the name of the code.
        return f"{super().__str__()} [{self.code.name}]"


class AuthenticationError(PenstockError):
    """Authentication failed: the client or the broker could not prove its identity. No request was sent."""


class AuthorizationError(BrokerError):
    """The principal of this client is not authorized for the operation."""

    advice = "ask the cluster's administrator for an ACL that allows it, or log in as another user"


class Fenced(BrokerError):
    """A newer instance has taken over, so this one must stop."""


class StaleMetadata(BrokerError):
    """The client's metadata is out of date. It is refreshed and the call is retried until its timeout."""


class CoordinatorUnavailable(BrokerError):
    """The coordinator of a group or transaction is moving or loading. The call is retried until its timeout."""
