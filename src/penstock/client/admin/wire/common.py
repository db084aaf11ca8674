"""Shared by the families: errors of responses, config values as text, optional numbers and ids."""

from __future__ import annotations

from typing import TypeVar

from penstock.client import errors
from penstock.client.errors import PenstockError
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import ZERO_UUID, Uuid, uuid_text

V = TypeVar("V")


def value_or_error(code: ErrorCode, message: str | None, about: object, value: V) -> V | PenstockError:
    """The value, or the exception for the error code."""
    return value if code is ErrorCode.NONE else errors.of(code, message, about=about)


def check(code: ErrorCode, message: str | None = None, about: object = None) -> None:
    """Raises the error of the whole response."""
    if code is not ErrorCode.NONE:
        raise errors.of(code, message, about=about)


def setting_text(value: object) -> str:
    """A config value as brokers read it: `true`, `a,b`, `86400000`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(setting_text(part) for part in value)
    return str(value)


def known(number: int) -> int | None:
    """None for -1, which means "unknown" in the protocol."""
    return None if number == -1 else number


def id_text(uuid: Uuid) -> str | None:
    """An id as Kafka's tools show it; None for the zero id."""
    return None if uuid == ZERO_UUID else uuid_text(uuid)
