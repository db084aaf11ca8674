"""Faults by script, inside the broker's process: what stands between its connections and its dispatcher.

`ScriptedServer` is a `penstock.net.connection.Server` round the real one. It reads a request's header, asks the script
whether something is to go wrong with it, and lets it: the broker behind it is the one that users run, unchanged. Where
the script has nothing to say, a request goes through as it came.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, cast

from penstock.net.connection import Answer, Connection, PeerError, Server
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.headers import read_request_header, read_response_header
from penstock.runtime.network import FileSlice, Part
from penstock.testing.refusals import refuse, spoil

_HEAD = struct.Struct(">hhi")  # API key, version, correlation id


class Fate(StrEnum):
    """What becomes of a request."""

    FAIL = "fail"
    """It is not carried out; the answer is an error."""
    DROP_REQUEST = "drop_request"
    """It is not carried out, and the connection ends."""
    DROP_RESPONSE = "drop_response"
    """It is carried out, and the connection ends before the answer."""
    SILENCE = "silence"
    """It is carried out and never answered, nor is any later one of its connection; it stays open."""
    DELAY = "delay"
    """It is carried out, and answered late."""


@dataclass(slots=True)
class Rule:
    """What happens to the next requests of an API."""

    api_key: int
    fate: Fate
    times: int
    """How many requests are still to meet this fate."""
    error_code: int = 0
    seconds: float = 0.0


class Script:
    """The rules in the order in which they were written; of several for one API the oldest comes first."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self._lock = threading.Lock()  # the test speaks on a thread of its own

    def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """Do what the test asks: add a rule, forget all, or just tell which are left."""
        with self._lock:
            match command.get("do"):
                case "add":
                    rule = command["rule"]
                    self.rules.append(Rule(**{**rule, "fate": Fate(rule["fate"])}))
                case "clear":
                    self.rules.clear()
            return {"rules": [asdict(rule) for rule in self.rules]}

    def next_for(self, api_key: int) -> Rule | None:
        """The rule for a request that has just come, which counts as followed."""
        with self._lock:
            rule = next((each for each in self.rules if each.api_key == api_key), None)
            if rule is not None:
                rule.times -= 1
                if not rule.times:
                    self.rules.remove(rule)
            return rule


class ScriptedServer:
    def __init__(self, inner: Server, script: Script) -> None:
        self._inner = inner
        self._script = script

    def serve(self, frame: memoryview, connection: Connection) -> Answer:
        if not self._script.rules or len(frame) < _HEAD.size:
            return self._inner.serve(frame, connection)
        api_key, version, correlation_id = _HEAD.unpack_from(frame)
        rule = self._script.next_for(api_key)
        alone = cast("Connection", _Alone(connection))
        if rule is None:
            return self._inner.serve(frame, alone)
        match rule.fate:
            case Fate.DROP_REQUEST:
                raise PeerError(f"a scripted fault drops {api(api_key).name}")
            case Fate.FAIL if api_key != ApiKey.METADATA:
                return [_refusal(frame, rule)]
        answer = self._inner.serve(frame, alone)
        match rule.fate:
            case Fate.FAIL:
                return asyncio.ensure_future(_spoilt(answer, version, correlation_id, rule))
            case Fate.DELAY:
                return asyncio.ensure_future(_delayed(answer, rule.seconds))
            case Fate.SILENCE:
                return asyncio.ensure_future(_never(answer))
            case _:
                return asyncio.ensure_future(_dropped(answer, connection))

    def connection_closed(self, connection: Connection) -> None:
        self._inner.connection_closed(connection)


class _Alone:
    """A connection that has no request behind the one being served, so that none escapes its rule by being handled
    together with another."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def has_next(self) -> bool:
        return False


def _refusal(frame: memoryview, rule: Rule) -> bytes:
    api_key, version, correlation_id, _, position = read_request_header(frame)
    described = api(api_key)
    request, _ = codec(described.request_class(), version).decode(frame, position)
    response = refuse(request, described.response_class(), version, ErrorCode.of(rule.error_code))
    return _encode(api_key, version, correlation_id, response)


def _encode(api_key: int, version: int, correlation_id: int, response: Any) -> bytes:
    described = api(api_key)
    head = struct.pack(">i", correlation_id)
    if described.response_header_version(version) >= 1:
        head += b"\x00"
    body = head + codec(described.response_class(), version).encode(response)
    return struct.pack(">i", len(body)) + body


async def _parts(answer: Answer) -> list[Part]:
    parts = await answer if isinstance(answer, asyncio.Future) else answer
    return parts or []


async def _spoilt(answer: Answer, version: int, correlation_id: int, rule: Rule) -> list[Part]:
    parts = [part.read() if isinstance(part, FileSlice) else bytes(part) for part in await _parts(answer)]
    whole = b"".join(parts)
    _, position = read_response_header(memoryview(whole)[4:], api(rule.api_key).key, version)
    response, _ = codec(api(rule.api_key).response_class(), version).decode(whole, 4 + position)
    spoil(response, ErrorCode.of(rule.error_code))
    return [_encode(rule.api_key, version, correlation_id, response)]


async def _delayed(answer: Answer, seconds: float) -> list[Part]:
    await asyncio.sleep(seconds)
    return await _parts(answer)


async def _never(answer: Answer) -> list[Part]:
    await _parts(answer)
    await asyncio.get_running_loop().create_future()
    raise AssertionError("nobody ends this wait but the connection's end")


async def _dropped(answer: Answer, connection: Connection) -> list[Part] | None:
    await _parts(answer)
    connection.abort()
    return None
