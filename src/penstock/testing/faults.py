"""Faults that a test asks for: `broker.faults.fail("Produce", "NOT_LEADER", times=2)`.

A fault waits for the next requests of an API and is used up by them; `pending` tells what is left. They are carried out
in the broker's process (`penstock.testing.script`), so that any client meets them, in whatever language.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from penstock.protocol.apis import ApiKey, api
from penstock.protocol.errors import ErrorCode
from penstock.testing.script import Fate, Rule

Tell = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class PendingFault:
    api: str
    kind: str
    times: int
    """How many requests it still waits for."""


class Faults:
    """What is to go wrong. An API is named as Kafka names it ("Produce", "JoinGroup"), in any case."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def fail(self, api: str | ApiKey, error: str | ErrorCode, *, times: int = 1) -> None:
        """Refuse the next requests with an error, for all that they name, and do nothing of what they ask.

        The error is a code or its name, or the beginning of one if that is enough: "NOT_LEADER".
        """
        self._add(api, Fate.FAIL, times, error_code=int(_error_named(error)))

    def drop_request(self, api: str | ApiKey, *, times: int = 1) -> None:
        """End the connection when the request comes; nothing is done."""
        self._add(api, Fate.DROP_REQUEST, times)

    def drop_response(self, api: str | ApiKey, *, times: int = 1) -> None:
        """Do what is asked and end the connection before the answer: the client cannot know whether it was done."""
        self._add(api, Fate.DROP_RESPONSE, times)

    def silence(self, api: str | ApiKey, *, times: int = 1) -> None:
        """Do what is asked and never answer; the connection stays open, so the client has to run out of patience."""
        self._add(api, Fate.SILENCE, times)

    def delay(self, api: str | ApiKey, *, seconds: float, times: int = 1) -> None:
        """Do what is asked, and answer later."""
        self._add(api, Fate.DELAY, times, seconds=seconds)

    def clear(self) -> None:
        """Forget what has not happened yet."""
        self._tell({"do": "clear"})

    @property
    def pending(self) -> list[PendingFault]:
        """What has not happened yet, oldest first."""
        rules = self._tell({"do": "tell"})["rules"]
        return [PendingFault(api(rule["api_key"]).name, rule["fate"], rule["times"]) for rule in rules]

    def _add(
        self, name: str | ApiKey, fate: Fate, times: int, *, error_code: int = 0, seconds: float = 0.0
    ) -> None:
        if times < 1:
            raise ValueError(f"times={times}: a fault happens at least once")
        rule = Rule(int(_api_named(name)), fate, times, error_code, seconds)
        self._tell({"do": "add", "rule": asdict(rule)})


def _api_named(name: str | ApiKey) -> ApiKey:
    if isinstance(name, ApiKey):
        return name
    by_name = {key.name.replace("_", ""): key for key in ApiKey}
    wanted = name.replace("_", "").upper()
    if wanted not in by_name:
        near = _nearest(wanted, by_name)
        raise ValueError(
            f"there is no API {name!r}" + (f"; did you mean {api(by_name[near]).name}?" if near else "")
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
        raise ValueError(f"no one error is called {error!r}" + (f"; did you mean {near}?" if near else ""))
    return codes[matching[0]]


def _nearest(wanted: str, known: Iterable[str]) -> str | None:
    """By how names begin: the beginning of one may be meant, and a slip in it is still near to that."""
    by_beginning = {name[: len(wanted) + 1]: name for name in known}
    near = difflib.get_close_matches(wanted, by_beginning, n=1, cutoff=0.5)
    return by_beginning[near[0]] if near else None
