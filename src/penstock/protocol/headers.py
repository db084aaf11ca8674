"""Request and response headers: API key, version, correlation id, client id.

The version of a header follows from the API and the version of the message (`Api.request_header_version`). Two rules
are easy to miss: the client id has an int16 length even in the flexible header, and the response to ApiVersions has
the oldest header in every version.
"""

from __future__ import annotations

import struct

from penstock.protocol import primitives
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.declare import NEVER, field, message
from penstock.protocol.errors import MalformedMessage
from penstock.protocol.types import Int16, Int32

__all__ = [
    "RequestHeader",
    "ResponseHeader",
    "encode_request_header",
    "encode_response_header",
    "read_request_header",
    "read_response_header",
    "skip_tagged_fields",
]


@message(versions=(0, 2), flexible=2)
class RequestHeader:
    request_api_key: Int16
    request_api_version: Int16
    correlation_id: Int32
    client_id: str | None = field(since=1, default=None, flexible_since=NEVER, ignorable=True)


@message(versions=(0, 1), flexible=1)
class ResponseHeader:
    correlation_id: Int32


_unpack_request_start = struct.Struct(">hhih").unpack_from
_unpack_correlation_id = struct.Struct(">i").unpack_from


def read_request_header(data: memoryview, position: int = 0) -> tuple[int, int, int, str | None, int]:
    """(API key, version, correlation id, client id, position of the body); the version is not checked.

    A key that Kafka does not define is malformed: it is unknown where its header ends.
    """
    try:
        key, version, correlation_id, client_id_bytes = _unpack_request_start(data, position)
        header_version = api(key).request_header_version(version)
        position += 10
        client_id = None
        if client_id_bytes >= 0:
            stop = position + client_id_bytes
            if stop > len(data):
                raise MalformedMessage(f"the client id would end at {stop}, past the end of the request")
            client_id = str(data[position:stop], "utf-8")
            position = stop
        if header_version >= 2:
            position = skip_tagged_fields(data, position)
    except struct.error as exc:
        raise MalformedMessage(f"the request ends inside its header: {exc}") from exc
    except KeyError as exc:
        raise MalformedMessage(f"no API has key {exc}") from exc
    except UnicodeDecodeError as exc:
        raise MalformedMessage("the client id is not UTF-8") from exc
    return key, version, correlation_id, client_id, position


def skip_tagged_fields(data: memoryview, position: int) -> int:
    """The position after the tagged section of a header; Kafka defines no tagged field of it so far."""
    try:
        return position + 1 if data[position] == 0 else primitives.skip_tagged(data, position)
    except IndexError as exc:
        raise MalformedMessage(f"the tagged fields at position {position} are cut off") from exc


def encode_request_header(key: ApiKey, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """The head for `Codec.encode_parts` of a request."""
    encoded = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(encoded)
    head = struct.pack(">hhih", key, version, correlation_id, length) + encoded
    return head + b"\x00" if api(key).request_header_version(version) == 2 else head


def encode_response_header(key: ApiKey, version: int, correlation_id: int) -> bytes:
    """The head for `Codec.encode_parts` of a response."""
    header_version = api(key).response_header_version(version)
    return struct.pack(">ix" if header_version else ">i", correlation_id)


def read_response_header(data: memoryview, key: ApiKey, version: int) -> tuple[int, int]:
    """(correlation id, position of the body) of the response to a request of this API and version."""
    try:
        (correlation_id,) = _unpack_correlation_id(data)
    except struct.error as exc:
        raise MalformedMessage(f"the response ends within its header: {exc}") from exc
    if api(key).response_header_version(version) == 0:
        return correlation_id, 4
    return correlation_id, skip_tagged_fields(data, 4)
