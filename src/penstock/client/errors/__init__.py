"""Every exception that a client raises, in one tree; public as `penstock.errors`.

    PenstockError
      ClientError            found here: BadConfiguration, TimedOut, Disconnected, SerializationFailed ...   client.py
      BrokerError            answered by a broker, one class for each error code                            data.py,
        AuthorizationError, Fenced, StaleMetadata, CoordinatorUnavailable    families                       groups.py,
      AuthenticationError    a family of both sides                                                         ...

Catch the class of one code (`UnknownTopicOrPartition`), a family (`AuthorizationError`), a branch (`BrokerError`), or
ask any of them whether it is `retriable`. `of(code)` makes the exception for what stood in a response.
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


def of(code: int, words: str | None = None, *, about: object = None) -> BrokerError:
    """The exception for an error code of a response; `words` are the broker's own, where it sent any.

    A code that only a newer broker knows is an `UnknownServerError` which names the number.
    """
    known = ErrorCode.of(code)
    assert known is not ErrorCode.NONE, "no error is not an error"
    if known != code and not words:
        words = f"the broker answered with error {int(code)}, which this client does not know"
    return base.BY_CODE[known](words or None, about=about)
