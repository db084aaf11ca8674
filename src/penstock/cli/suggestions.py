"""Advice for errors where a command knows more than the client: close names, and unsupported APIs.

An error of the client ends with advice for programs; for `topics delete nosuch`, "create the topic" is nonsense.
`add_suggestions` looks up close names while the connection is open, and adds them to the errors as notes. `sentence`
replaces the advice by the note.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.client import errors
from penstock.client.errors import BrokerError, ItemsFailed, PenstockError

if TYPE_CHECKING:
    from penstock.client.cluster_client import ClusterClient

LOOKUP_S = 5.0  # a suggestion is not worth a longer wait
CLOSENESS = 0.6

# Features of APIs that a broker may not support.
SUBJECTS = {
    "Acl": "ACLs",
    "UserScramCredentials": "users with SCRAM passwords",
    "ClientQuotas": "client quotas",
    "DelegationToken": "delegation tokens",
    "ShareGroup": "share groups",
    "ReplicaLogDirs": "moves between log directories",
}
NOT_SERVED = re.compile(r"does not serve (\w+)")


def sentence(problem: PenstockError) -> str:
    """The error message with the best advice."""
    text = str(problem)
    for error in _leaves(problem):
        advice = _advice(error)
        if advice is None:
            continue
        if error.advice:
            text = text.replace(error.advice, advice, 1)
        else:  # before the error code at the end
            message = str(error)
            code = f" [{error.code.name}]" if error.code is not None else ""
            text = text.replace(message, f"{message.removesuffix(code)}; {advice}{code}", 1)
    return text


def _advice(error: PenstockError) -> str | None:
    notes: list[str] = getattr(error, "__notes__", [])
    if notes:
        return "; ".join(reversed(notes))  # the note of the command was added first, and comes last
    if isinstance(error, errors.UnsupportedVersion) and (found := NOT_SERVED.search(str(error.detail))):
        return _not_served(found[1])
    if isinstance(error, errors.BrokerNotAvailable):
        return "`penstock cluster describe` lists the running brokers"
    if isinstance(error, errors.InvalidConfig):
        return "`penstock settings NAME` explains a setting (--topic for topics, --group for groups)"
    return None


def _not_served(api: str) -> str:
    for part, subject in SUBJECTS.items():
        if part in api:
            return (
                f"this broker does not support {subject} (nor does Penstock's broker yet); "
                "`penstock cluster apis` lists what it supports"
            )
    return "`penstock cluster apis` lists what this broker supports"


async def add_suggestions(problem: PenstockError, client: ClusterClient) -> None:
    """Add close names to each error about an unknown topic, group or transactional id."""
    unknown = [error for error in _leaves(problem) if isinstance(error, tuple(KINDS))]
    for kind, (noun, command, names_of) in KINDS.items():
        wanted = [error for error in unknown if isinstance(error, kind)]
        if not wanted:
            continue
        names: list[str] = []
        with suppress(PenstockError):  # the original error matters more
            names = sorted(await names_of(client))
        for error in wanted:
            note(error, names, noun=noun, command=command)


def add_topic_suggestions(problem: PenstockError, names: Callable[[], Iterable[str]]) -> None:
    """The same for a consumer, which knows only topics."""
    wanted = [error for error in _leaves(problem) if isinstance(error, errors.UnknownTopicOrPartition)]
    if wanted:
        known: list[str] = []
        with suppress(PenstockError):
            known = sorted(names())
        for error in wanted:
            note(error, known, noun="topic", command="penstock topics list")


def note(error: BrokerError, names: list[str], *, noun: str, command: str) -> None:
    name = _name(error.about)
    if noun == "topic" and name in names:  # the topic exists, without this partition
        error.add_note(f"`penstock topics describe {name}` lists its partitions")
        return
    import difflib  # only errors pay for the import

    near = difflib.get_close_matches(name, names, n=1, cutoff=CLOSENESS)
    listing = f"`{command}` lists all {noun}s"
    error.add_note(f"did you mean {near[0]}? {listing}" if near else listing)


def _name(about: object) -> str:
    """The name in an error: of a topic, of a partition's topic, or of a resource."""
    for attribute in ("topic", "name"):
        found = getattr(about, attribute, None)
        if isinstance(found, str):
            return found
    return str(about)


def _leaves(problem: PenstockError) -> Iterator[PenstockError]:
    if isinstance(problem, ItemsFailed):
        for each in problem.exceptions:
            if isinstance(each, PenstockError):
                yield from _leaves(each)
    else:
        yield problem


async def _topics(client: ClusterClient) -> list[str]:
    from penstock.client.admin.topics import TopicsAdmin

    listed = await TopicsAdmin(client).list_topics(include_internal=True, timeout=LOOKUP_S)
    return [topic.name for topic in listed]


async def _groups(client: ClusterClient) -> list[str]:
    from penstock.client.admin.groups import GroupsAdmin

    return [group.group_id for group in await GroupsAdmin(client).list_groups(timeout=LOOKUP_S)]


async def _transactional_ids(client: ClusterClient) -> list[str]:
    from penstock.client.admin.transactions import TransactionsAdmin

    listed = await TransactionsAdmin(client).list_transactions(timeout=LOOKUP_S)
    return [each.transactional_id for each in listed]


ListNames = Callable[["ClusterClient"], Awaitable[list[str]]]

KINDS: dict[type[BrokerError], tuple[str, str, ListNames]] = {
    errors.UnknownTopicOrPartition: ("topic", "penstock topics list", _topics),
    errors.GroupIdNotFound: ("group", "penstock groups list", _groups),
    errors.TransactionalIdNotFound: ("transactional id", "penstock transactions list", _transactional_ids),
}
