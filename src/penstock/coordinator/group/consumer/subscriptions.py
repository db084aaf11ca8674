"""The subscriptions of a group, as counts that are updated with its members.

Members subscribe to topics by name and by regular expression. Names are counted by member. Topics that match a regular
expression are counted by expression, because each is resolved once for all members that share it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.group.consumer.regex import ResolvedRegex


class Subscriptions:
    """Changed in place by replay; a decision changes a `copy`."""

    __slots__ = ("by_name", "by_regex", "regexes")

    def __init__(self) -> None:
        self.by_name: Counter[str] = Counter()
        """Topics, with the number of members that subscribe to them by name."""
        self.by_regex: Counter[str] = Counter()
        """Topics, with the number of regular expressions that match them."""
        self.regexes: Counter[str] = Counter()
        """Regular expressions, with the number of members that use them."""

    def copy(self) -> Subscriptions:
        other = Subscriptions()
        other.by_name, other.by_regex, other.regexes = (
            self.by_name.copy(),
            self.by_regex.copy(),
            self.regexes.copy(),
        )
        return other

    def replace(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        if before and after and before.topics == after.topics and before.regex == after.regex:
            return
        if before is not None:
            _subtract(self.by_name, before.topics)
            _subtract(self.regexes, [before.regex] if before.regex else ())
        if after is not None:
            self.by_name.update(after.topics)
            self.regexes.update([after.regex] if after.regex else ())

    def resolve(self, before: ResolvedRegex | None, after: ResolvedRegex | None) -> None:
        if before is not None:
            _subtract(self.by_regex, before.topics)
        if after is not None:
            self.by_regex.update(after.topics)

    def __contains__(self, topic: str) -> bool:
        return topic in self.by_name or topic in self.by_regex

    def topics(self) -> frozenset[str]:
        return frozenset(self.by_name) | frozenset(self.by_regex)

    def are_homogeneous(self, member_count: int) -> bool:
        """Whether all members subscribe to the same topics. May be False even if they do."""
        if not self.regexes:
            return all(count == member_count for count in self.by_name.values()) and not self.by_regex
        if len(self.regexes) > 1 or next(iter(self.regexes.values())) != member_count:
            return False
        return not self.by_name


def subscribed_topics(member: ConsumerMember, resolved: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """All topics that a member subscribes to, existing or not."""
    found = resolved.get(member.regex) if member.regex else None
    return member.topics | found.topics if found is not None else member.topics


def _subtract(counts: Counter[str], names: Iterable[str]) -> None:
    for name in names:
        counts[name] -= 1
        if counts[name] <= 0:
            del counts[name]
