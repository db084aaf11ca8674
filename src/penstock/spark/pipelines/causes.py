"""Why a query failed, from the pages that Spark writes about it; sans-IO.

Spark wraps what went wrong in a Python worker into its own classes, the worker's traceback and the JVM's. What helps is
one line of it, the last of the traceback that matters, and where in the topics it happened.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from penstock.spark.pipelines.figures import Offsets, read_offsets

BEGIN_OF_OFFSETS = "=== Streaming Query ==="
# The last line of a traceback: `penstock.spark.errors.DataLost: orders-0: ...`, or a name alone.
ENDING = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<words>.*))?$")
CHAINED = "During handling of the above exception"
GROUP = "Exception Group Traceback (most recent call last):"
PARTS = re.compile(r"^ *\+-\+-+ 1 -+$", re.MULTILINE)  # where the exceptions of a group begin
CONDITION = re.compile(r"^\[(?P<condition>[A-Z][A-Z0-9_.]+)\] (?P<words>.*)$", re.DOTALL)
COMMITTED = re.compile(r"^Current Committed Offsets: \{(.*)\}$", re.MULTILINE)
AVAILABLE = re.compile(r"^Current Available Offsets: \{(.*)\}$", re.MULTILINE)
# All that Spark says where the process is gone in which a source plans batches: it starts no other. The last is what it
# says of an end of file, and of whatever else comes without a word.
BROKEN = ("Broken pipe", "Connection reset", "(no cause message)")
RANGES_SHOWN = 6


class Cause(NamedTuple):
    """What to tell: a sentence, and the records that were being read."""

    words: str
    reading: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(self.reading[:RANGES_SHOWN])
        more = len(self.reading) - RANGES_SHOWN
        where = f" (it was reading {shown}{f' and {more} more' if more > 0 else ''})" if shown else ""
        return f"{self.words}{where}"


def cause_of(text: str) -> Cause:
    """The one that matters in what Spark says of a failed query."""
    story, _, rest = text.partition(BEGIN_OF_OFFSETS)
    words = _last_words(story) or _plain(story)
    if words in BROKEN:
        words = (
            "the process in which Spark asks the source for new records was killed, or has crashed; start the query"
            " again, and it goes on where it was"
        )
    return Cause(words, tuple(_ranges(rest)))


def is_of_lost_process(text: str) -> bool:
    """Whether nothing is wrong with the query: it would go on if it were started again."""
    story, _, _ = text.partition(BEGIN_OF_OFFSETS)
    return _last_words(story) is None and _plain(story) in BROKEN


def _last_words(story: str) -> str | None:
    """The end of the last traceback; of an earlier one where the last is a stumble of Spark's own over the first."""
    endings: list[str] = []
    is_traceback = False
    for line in _without_groups(story).splitlines():
        line = re.sub(r"( SQLSTATE: \w+)+$", "", line)
        if line.endswith("Traceback (most recent call last):"):
            is_traceback = True
        elif is_traceback and not line.startswith((" ", "\t")) and (found := ENDING.match(line)):
            kind = found["kind"].rpartition(".")[2]
            endings.append(f"{kind}: {found['words']}" if found["words"] else kind)
            is_traceback = False
    while len(endings) > 1 and endings[-1].startswith("UnboundLocalError: ") and CHAINED in story:
        endings.pop()
    return endings[-1] if endings else None


def _without_groups(story: str) -> str:
    """A traceback of several exceptions as that of the one that holds them, which says what they have in common. Python
    draws it with a margin of bars, and Spark may have cut the bars off and left a blank."""
    if GROUP not in story:
        return story
    before, _, group = story.partition(GROUP)
    own = PARTS.split(group, maxsplit=1)[0]
    return before + GROUP + re.sub(r"^(?: *\| ?| (?=\S))", "", own, flags=re.MULTILINE)


def _plain(story: str) -> str:
    """What Spark says itself, without the names of its conditions."""
    words = story.strip()
    words = re.sub(
        r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ", "", words, flags=re.DOTALL
    )
    words = re.sub(r"( SQLSTATE: \w+)+", "", words)
    if found := CONDITION.match(words):
        words = found["words"]
    return " ".join(line for line in words.splitlines() if line and not line.startswith("\tat ")).strip()


def _ranges(rest: str) -> list[str]:
    """`orders-0 from 17 to 42`, for every partition of the batch that failed."""
    committed, available = _offsets(COMMITTED, rest), _offsets(AVAILABLE, rest)
    ranges: list[str] = []
    for topic, partitions in available.items():
        for index, end in partitions.items():
            start = committed.get(topic, {}).get(index)
            if start != end:
                ranges.append(
                    f"{topic}-{index} from {start if start is not None else 'the beginning'} to {end}"
                )
    return ranges


def _offsets(pattern: re.Pattern[str], rest: str) -> Offsets:
    found = pattern.search(rest)
    merged: Offsets = {}
    for text in _objects(found[1]) if found else []:
        for topic, partitions in (read_offsets(text) or {}).items():
            merged.setdefault(topic, {}).update(partitions)
    return merged


def _objects(text: str) -> list[str]:
    """The JSON objects in a text that has other things between them."""
    decoder = json.JSONDecoder()
    found: list[str] = []
    place = text.find('{"')
    while place >= 0:
        try:
            _, end = decoder.raw_decode(text, place)
        except ValueError:
            end = place + 1
        else:
            found.append(text[place:end])
        place = text.find('{"', end)
    return found
