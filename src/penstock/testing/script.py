"""Injected faults, inside the broker's process, between its connections and its dispatcher.

`ScriptedServer` wraps the real `penstock.net.connection.Server`. It reads the header of each request and applies
the next matching rule. Requests without a rule pass through unchanged, and the broker behind it is the one that
users run.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, cast

from penstock.net.connection import Connection, PeerError, Response, Server
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.headers import read_request_header, read_response_header
from penstock.runtime.network import FileSlice, Part
from penstock.testing.error_responses import make_error_response, set_topic_errors

_HEAD = struct.Struct(">hhi")  # API key, version, correlation id


class FaultKind(StrEnum):
    """What happens to a request."""

    FAIL = "fail"
    """It is not executed; the response is an error."""
    DROP_REQUEST = "drop_request"
    """It is not executed, and the connection closes."""
    DROP_RESPONSE = "drop_response"
    """It is executed, and the connection closes before the response."""
    SILENCE = "silence"
    """It is executed but never answered, nor are later requests of its connection, which stays open."""
    DELAY = "delay"
    """It is executed, and the response is late."""


@dataclass(slots=True)
class FaultRule:
    """A fault for the next requests of an API."""

    api_key: int
    kind: FaultKind
    times: int
    """How many more requests it applies to."""
    error_code: int = 0
    seconds: float = 0.0


class FaultScript:
    """The rules in the order in which they were added. The oldest rule for an API applies first."""

    def __init__(self) -> None:
        self.rules: list[FaultRule] = []
        self._lock = threading.Lock()  # commands arrive on another thread

    def execute(self, command: dict[str, Any]) -> dict[str, Any]:
        """Execute a command from the test: add a rule, drop all rules, or just list the remaining ones."""
        with self._lock:
            match command.get("do"):
                case "add":
                    rule = command["rule"]
                    self.rules.append(FaultRule(**{**rule, "kind": FaultKind(rule["kind"])}))
                case "clear":
                    self.rules.clear()
            return {"rules": [asdict(rule) for rule in self.rules]}

    def next_for(self, api_key: int) -> FaultRule | None:
        """The rule for the request that has just arrived. This uses up one of its times."""
        with self._lock:
            rule = next((each for each in self.rules if each.api_key == api_key), None)
            if rule is not None:
                rule.times -= 1
                if not rule.times:
                    self.rules.remove(rule)
            return rule


class ScriptedServer:
    def __init__(self, inner: Server, script: FaultScript) -> None:
        self._inner = inner
        self._script = script

    def serve(self, frame: memoryview, connection: Connection) -> Response:
        if not self._script.rules or len(frame) < _HEAD.size:
            return self._inner.serve(frame, connection)
        api_key, version, correlation_id = _HEAD.unpack_from(frame)
        rule = self._script.next_for(api_key)
        single = cast("Connection", _SingleRequestConnection(connection))
        if rule is None:
            return self._inner.serve(frame, single)
        match rule.kind:
            case FaultKind.DROP_REQUEST:
                raise PeerError(f"a scripted fault drops {api(api_key).name}")
            case FaultKind.FAIL if api_key != ApiKey.METADATA:
                return [_error_response(frame, rule)]
        answer = self._inner.serve(frame, single)
        match rule.kind:
            case FaultKind.FAIL:
                return asyncio.ensure_future(_with_topic_errors(answer, version, correlation_id, rule))
            case FaultKind.DELAY:
                return asyncio.ensure_future(_delayed(answer, rule.seconds))
            case FaultKind.SILENCE:
                return asyncio.ensure_future(_unanswered(answer))
            case _:
                return asyncio.ensure_future(_dropped(answer, connection))

    def connection_closed(self, connection: Connection) -> None:
        self._inner.connection_closed(connection)


class _SingleRequestConnection:
    """A connection that shows no further request, so that no request is batched with the next and bypasses its
    rule."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def has_next(self) -> bool:
        return False


def _error_response(frame: memoryview, rule: FaultRule) -> bytes:
    api_key, version, correlation_id, _, position = read_request_header(frame)
    described = api(api_key)
    request, _ = codec(described.request_class(), version).decode(frame, position)
    response = make_error_response(
        request, described.response_class(), version, ErrorCode.of(rule.error_code)
    )
    return _encode(api_key, version, correlation_id, response)


def _encode(api_key: int, version: int, correlation_id: int, response: Any) -> bytes:
    described = api(api_key)
    head = struct.pack(">i", correlation_id)
    if described.response_header_version(version) >= 1:
        head += b"\x00"
    body = head + codec(described.response_class(), version).encode(response)
    return struct.pack(">i", len(body)) + body


async def _parts(answer: Response) -> list[Part]:
    parts = await answer if isinstance(answer, asyncio.Future) else answer
    return parts or []


async def _with_topic_errors(
    answer: Response, version: int, correlation_id: int, rule: FaultRule
) -> list[Part]:
    parts = [part.read() if isinstance(part, FileSlice) else bytes(part) for part in await _parts(answer)]
    whole = b"".join(parts)
    _, position = read_response_header(memoryview(whole)[4:], api(rule.api_key).key, version)
    response, _ = codec(api(rule.api_key).response_class(), version).decode(whole, 4 + position)
    set_topic_errors(response, ErrorCode.of(rule.error_code))
    return [_encode(rule.api_key, version, correlation_id, response)]


async def _delayed(answer: Response, seconds: float) -> list[Part]:
    await asyncio.sleep(seconds)
    return await _parts(answer)


async def _unanswered(answer: Response) -> list[Part]:
    await _parts(answer)
    await asyncio.get_running_loop().create_future()
    raise AssertionError("only the end of the connection ends this wait")


async def _dropped(answer: Response, connection: Connection) -> list[Part] | None:
    await _parts(answer)
    connection.abort()
    return None
