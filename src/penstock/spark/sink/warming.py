"""Makes what a commit needs before there is one: imported by the daemon of Python workers, and never by anything else.

Spark forks a process for every commit, and message codecs are compiled at first use, in each of them again: 14 of 22 ms
of processor time (a commit of two tasks). A fork has what its parent has compiled. Only versions that a broker of this
release speaks are made; others are compiled as ever. Starts no thread and opens nothing.
"""

from __future__ import annotations

import penstock.client.admin.wire.transactions  # noqa: F401 - which the first call of its kind would import
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.codec import codec
from penstock.runtime.loop import new_loop
from penstock.spark.sink.decisions import BY_NAME

ASKED = (
    ApiKey.API_VERSIONS,
    ApiKey.METADATA,
    ApiKey.FIND_COORDINATOR,
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.END_TXN,
    ApiKey.INIT_PRODUCER_ID,
)


def warm() -> None:
    for key in ASKED:
        for version in {BY_NAME.get(key, key.last_version), key.last_version}:
            described = api(key)
            _ = codec(described.request_class(), version).encode_parts
            _ = codec(described.response_class(), version).decode
    new_loop().close()


warm()
