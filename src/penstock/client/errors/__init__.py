"""All exceptions of the client, in one tree; public as `penstock.errors`.

    PenstockError
      ClientError            raised by the client: BadConfiguration, TimedOut, Disconnected, SerializationFailed ...
      BrokerError            returned by a broker, one class for each error code
        AuthorizationError, Fenced, StaleMetadata, CoordinatorUnavailable    families of codes
      AuthenticationError    raised by the client or returned by a broker

Catch one code (`UnknownTopicOrPartition`), a family (`AuthorizationError`) or a branch (`BrokerError`). Every exception
has `retriable`: whether the same call may succeed later. `of(code)` makes the exception for an error code.
"""

# ruff: noqa: F403, F405  each module names what it gives in its `__all__`, and all of it is meant to be seen here

from __future__ import annotations

from penstock.client.errors import base, client, cluster, data, groups, security, several, transactions
from penstock.client.errors.base import *
from penstock.client.errors.client import *
from penstock.client.errors.cluster import *
from penstock.client.errors.data import *
from penstock.client.errors.groups import *
from penstock.client.errors.security import *
from penstock.client.errors.several import *
from penstock.client.errors.transactions import *
from penstock.protocol.errors import ErrorCode

__all__ = ["of"]
__all__ += base.__all__
__all__ += client.__all__
__all__ += cluster.__all__
__all__ += data.__all__
__all__ += groups.__all__
__all__ += security.__all__
__all__ += several.__all__
__all__ += transactions.__all__


def of(code: int, message: str | None = None, *, about: object = None) -> BrokerError:
    """The exception for the error code of a response. `message` is the broker's own message, if it sent one.

    A code that this client does not know becomes an `UnknownServerError` that names the number.
    """
    known = ErrorCode.of(code)
    assert known is not ErrorCode.NONE, "NONE is not an error"
    if known != code and not message:
        message = f"the broker returned error code {int(code)}, which this client does not know"
    return base.BY_CODE[known](message or None, about=about)
