"""What to do next, where a command knows better than the error: close names, and what a broker does not serve.

An error of the client ends with its own advice. That advice fits a program; for `topics delete nosuch`, "create the
topic" is nonsense. `add_suggestions` looks for names that are close while the cluster can still be asked, and notes
them on the errors. `sentence` then puts the note in place of the advice.
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

LOOK_S = 5.0  # a suggestion is not worth a longer wait
CLOSENESS = 0.6

# What the APIs are for that a broker may lack altogether.
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
    """The error in words, with the best advice there is."""
    text = str(problem)
    for error in _leaves(problem):
        advice = _advice(error)
        if advice is None:
            continue
        if error.advice:
            text = text.replace(error.advice, advice, 1)
        else:  # before the name of the code, which stands last
            told = str(error)
            code = f" [{error.code.name}]" if error.code is not None else ""
            text = text.replace(told, f"{told.removesuffix(code)}; {advice}{code}", 1)
    return text


def _advice(error: PenstockError) -> str | None:
    notes: list[str] = getattr(error, "__notes__", [])
    if notes:
        return "; ".join(reversed(notes))  # a command's own note is older, and comes last
    if isinstance(error, errors.UnsupportedVersion) and (found := NOT_SERVED.search(str(error.words))):
        return _not_served(found[1])
    if isinstance(error, errors.BrokerNotAvailable):
        return "`penstock cluster describe` lists the brokers that run"
    if isinstance(error, errors.InvalidConfig):
        return (
            "look a setting up with `penstock settings NAME`, of topics with --topic, of groups with --group"
        )
    return None


def _not_served(api: str) -> str:
    for part, subject in SUBJECTS.items():
        if part in api:
            return (
                f"this broker has no {subject}, and Penstock's own does not have them yet "
                "(`penstock cluster apis` lists what it serves)"
            )
    return "`penstock cluster apis` lists what this broker serves"


async def add_suggestions(problem: PenstockError, client: ClusterClient) -> None:
    """Note on each error about an unknown topic, group or transactional id which names are close."""
    unknown = [error for error in _leaves(problem) if isinstance(error, tuple(KINDS))]
    for kind, (noun, command, names_of) in KINDS.items():
        wanted = [error for error in unknown if isinstance(error, kind)]
        if not wanted:
            continue
        names: list[str] = []
        with suppress(PenstockError):  # the first error is what counts
            names = sorted(await names_of(client))
        for error in wanted:
            note(error, names, noun=noun, command=command)


def add_topic_suggestions(problem: PenstockError, names: Callable[[], Iterable[str]]) -> None:
    """The same for a client that knows topics only."""
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
    import difflib  # only a failing command has to pay for it

    near = difflib.get_close_matches(name, names, n=1, cutoff=CLOSENESS)
    listing = f"`{command}` lists all {noun}s"
    error.add_note(f"did you mean {near[0]}? {listing}" if near else listing)


def _name(about: object) -> str:
    """The name of what an error is about: a topic, a partition's topic, or a resource such as `topic orders`."""
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

    listed = await TopicsAdmin(client).list_topics(include_internal=True, timeout=LOOK_S)
    return [topic.name for topic in listed]


async def _groups(client: ClusterClient) -> list[str]:
    from penstock.client.admin.groups import GroupsAdmin

    return [group.group_id for group in await GroupsAdmin(client).list_groups(timeout=LOOK_S)]


async def _transactional_ids(client: ClusterClient) -> list[str]:
    from penstock.client.admin.transactions import TransactionsAdmin

    listed = await TransactionsAdmin(client).list_transactions(timeout=LOOK_S)
    return [each.transactional_id for each in listed]


ListNames = Callable[["ClusterClient"], Awaitable[list[str]]]

KINDS: dict[type[BrokerError], tuple[str, str, ListNames]] = {
    errors.UnknownTopicOrPartition: ("topic", "penstock topics list", _topics),
    errors.GroupIdNotFound: ("group", "penstock groups list", _groups),
    errors.TransactionalIdNotFound: ("transactional id", "penstock transactions list", _transactional_ids),
}
