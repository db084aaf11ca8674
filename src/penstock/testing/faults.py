"""Faults that a test injects: `broker.faults.fail("Produce", "NOT_LEADER", times=2)`.

A fault applies to the next requests of an API, `times` of them; `pending` lists the faults that are left. Faults
happen in the broker's process (`penstock.testing.script`), so every client sees them, in any language.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from penstock.protocol.apis import ApiKey, api
from penstock.protocol.errors import ErrorCode
from penstock.testing.script import FaultKind, FaultRule

SendCommand = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class PendingFault:
    api: str
    kind: str
    times: int
    """How many more requests it applies to."""


class Faults:
    """Faults to inject. APIs have Kafka's names ("Produce", "JoinGroup"), in any letter case."""

    def __init__(self, send_command: SendCommand) -> None:
        self._send_command = send_command

    def fail(self, api: str | ApiKey, error: str | ErrorCode, *, times: int = 1) -> None:
        """Reject the next requests with an error for every topic or group that they name, without executing them.

        The error is a code, its name, or an unambiguous prefix of a name: "NOT_LEADER".
        """
        self._add(api, FaultKind.FAIL, times, error_code=int(_error_named(error)))

    def drop_request(self, api: str | ApiKey, *, times: int = 1) -> None:
        """Close the connection when the request arrives, without executing it."""
        self._add(api, FaultKind.DROP_REQUEST, times)

    def drop_response(self, api: str | ApiKey, *, times: int = 1) -> None:
        """Execute the request and close the connection before the response: the client cannot know whether it was
        executed."""
        self._add(api, FaultKind.DROP_RESPONSE, times)

    def silence(self, api: str | ApiKey, *, times: int = 1) -> None:
        """Execute the request and never respond. The connection stays open, so the client has to time out."""
        self._add(api, FaultKind.SILENCE, times)

    def delay(self, api: str | ApiKey, *, seconds: float, times: int = 1) -> None:
        """Execute the request and respond late."""
        self._add(api, FaultKind.DELAY, times, seconds=seconds)

    def clear(self) -> None:
        """Drop the faults that have not happened yet."""
        self._send_command({"do": "clear"})

    @property
    def pending(self) -> list[PendingFault]:
        """The faults that have not happened yet, oldest first."""
        rules = self._send_command({"do": "list"})["rules"]
        return [PendingFault(api(rule["api_key"]).name, rule["kind"], rule["times"]) for rule in rules]

    def _add(
        self, name: str | ApiKey, kind: FaultKind, times: int, *, error_code: int = 0, seconds: float = 0.0
    ) -> None:
        if times < 1:
            raise ValueError(f"times={times}: must be at least 1")
        rule = FaultRule(int(_api_named(name)), kind, times, error_code, seconds)
        self._send_command({"do": "add", "rule": asdict(rule)})


def _api_named(name: str | ApiKey) -> ApiKey:
    if isinstance(name, ApiKey):
        return name
    by_name = {key.name.replace("_", ""): key for key in ApiKey}
    wanted = name.replace("_", "").upper()
    if wanted not in by_name:
        near = _nearest(wanted, by_name)
        raise ValueError(
            f"unknown API {name!r}" + (f"; did you mean {api(by_name[near]).name}?" if near else "")
        )
    return by_name[wanted]


def _error_named(error: str | ErrorCode) -> ErrorCode:
    if isinstance(error, ErrorCode):
        return error
    wanted = error.upper()
    codes = {code.name: code for code in ErrorCode}
    if wanted in codes:
        return codes[wanted]
    matching = [name for name in codes if name.startswith(wanted)]
    if len(matching) != 1:
        near = _nearest(wanted, matching or codes)
        raise ValueError(
            f"unknown or ambiguous error {error!r}" + (f"; did you mean {near}?" if near else "")
        )
    return codes[matching[0]]


def _nearest(wanted: str, known: Iterable[str]) -> str | None:
    """Compares prefixes, since the caller may have given only a prefix, perhaps with a typo."""
    by_beginning = {name[: len(wanted) + 1]: name for name in known}
    near = difflib.get_close_matches(wanted, by_beginning, n=1, cutoff=0.5)
    return by_beginning[near[0]] if near else None
