"""Finds the cause of a failed query in Spark's long error text; sans-IO.

Spark wraps an error of a Python worker into its own classes, the worker's traceback and the JVM's. The useful part
is one line, the last of the relevant traceback, and which offsets were being read.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from penstock.spark.pipelines.figures import Offsets, read_offsets

BEGIN_OF_OFFSETS = "=== Streaming Query ==="
# The last line of a traceback: `penstock.spark.errors.DataLost: orders-0: ...`, or just a class name.
ENDING = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$")
CHAINED = "During handling of the above exception"
GROUP = "Exception Group Traceback (most recent call last):"
PARTS = re.compile(r"^ *\+-\+-+ 1 -+$", re.MULTILINE)  # where the exceptions of a group start
CONDITION = re.compile(r"^\[(?P<condition>[A-Z][A-Z0-9_.]+)\] (?P<message>.*)$", re.DOTALL)
COMMITTED = re.compile(r"^Current Committed Offsets: \{(.*)\}$", re.MULTILINE)
AVAILABLE = re.compile(r"^Current Available Offsets: \{(.*)\}$", re.MULTILINE)
# All that Spark says if the process has died in which a source plans batches; Spark starts no other. The last one
# stands for an end of file, and for any error without a message.
BROKEN = ("Broken pipe", "Connection reset", "(no cause message)")
RANGES_SHOWN = 6


class Cause(NamedTuple):
    """The message for the user, and the records that were being read."""

    message: str
    reading: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(self.reading[:RANGES_SHOWN])
        more = len(self.reading) - RANGES_SHOWN
        where = f" (it was reading {shown}{f' and {more} more' if more > 0 else ''})" if shown else ""
        return f"{self.message}{where}"


def cause_of(text: str) -> Cause:
    """The cause in Spark's text about a failed query."""
    report, _, rest = text.partition(BEGIN_OF_OFFSETS)
    message = _last_line(report) or _plain(report)
    if message in BROKEN:
        message = (
            "the process in which Spark asks the source for new records was killed or crashed; start the query again:"
            " it continues where it stopped"
        )
    return Cause(message, tuple(_ranges(rest)))


def is_lost_process(text: str) -> bool:
    """Whether only a process died and the query itself is fine: it would continue after a restart."""
    report, _, _ = text.partition(BEGIN_OF_OFFSETS)
    return _last_line(report) is None and _plain(report) in BROKEN


def _last_line(report: str) -> str | None:
    """The last line of the last traceback; of an earlier one if the last is Spark's own error while handling it."""
    endings: list[str] = []
    is_traceback = False
    for line in _without_groups(report).splitlines():
        line = re.sub(r"( SQLSTATE: \w+)+$", "", line)
        if line.endswith("Traceback (most recent call last):"):
            is_traceback = True
        elif is_traceback and not line.startswith((" ", "\t")) and (found := ENDING.match(line)):
            kind = found["kind"].rpartition(".")[2]
            endings.append(f"{kind}: {found['message']}" if found["message"] else kind)
            is_traceback = False
    while len(endings) > 1 and endings[-1].startswith("UnboundLocalError: ") and CHAINED in report:
        endings.pop()
    return endings[-1] if endings else None


def _without_groups(report: str) -> str:
    """Replace an exception group by the traceback of the group itself, whose message is common to all. Python draws
    groups with a margin of bars, and Spark may have stripped the bars and left a blank."""
    if GROUP not in report:
        return report
    before, _, group = report.partition(GROUP)
    own = PARTS.split(group, maxsplit=1)[0]
    return before + GROUP + re.sub(r"^(?: *\| ?| (?=\S))", "", own, flags=re.MULTILINE)


def _plain(report: str) -> str:
    """Spark's own message, without its condition name."""
    text = report.strip()
    text = re.sub(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ", "", text, flags=re.DOTALL)
    text = re.sub(r"( SQLSTATE: \w+)+", "", text)
    if found := CONDITION.match(text):
        text = found["message"]
    return " ".join(line for line in text.splitlines() if line and not line.startswith("\tat ")).strip()


def _ranges(rest: str) -> list[str]:
    """`orders-0 from 17 to 42`, for every partition of the failed batch."""
    committed, available = _offsets(COMMITTED, rest), _offsets(AVAILABLE, rest)
    ranges: list[str] = []
    for topic, partitions in available.items():
        for index, end in partitions.items():
            start = committed.get(topic, {}).get(index)
            if start != end:
                ranges.append(f"{topic}-{index} from {start if start is not None else 'the start'} to {end}")
    return ranges


def _offsets(pattern: re.Pattern[str], rest: str) -> Offsets:
    found = pattern.search(rest)
    merged: Offsets = {}
    for text in _objects(found[1]) if found else []:
        for topic, partitions in (read_offsets(text) or {}).items():
            merged.setdefault(topic, {}).update(partitions)
    return merged


def _objects(text: str) -> list[str]:
    """The JSON objects in a text with other things between them."""
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
