r"""Java's `.properties` format, the format of Kafka's `server.properties`.

A line is `key=value`, `key: value` or `key value`. `#` or `!` starts a comment. A backslash at the end joins the next
line, without its indent; elsewhere it escapes the next character, or is one of `\t \n \r \f \uXXXX`. If a key occurs
twice, the last value counts.

A test compares this parser with a running JVM. One difference is intended: for a file that ends in a lone backslash,
Java returns an entry without name and value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

BLANK = " \t\f"
LINE_END = re.compile(r"\r\n|\r|\n")
ESCAPE = re.compile(r"\\(u.{0,4}|.|$)", re.DOTALL)
NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

# A key ends at the first separator without a backslash before it; blanks around `=` or `:` are ignored.
ENTRY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)


class BadProperties(ValueError):
    """The file is not in the format. The message names the line."""


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values, in the order of their first occurrence."""
    entries: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = ENTRY.fullmatch(line)
        assert match is not None, "the pattern matches every line"
        try:
            entries[_unescape(match[1])] = _unescape(match[2])
        except ValueError as problem:
            raise BadProperties(f"line {number}: {problem}") from None
    return entries


def decode_properties(data: bytes) -> str:
    r"""The text of a file: UTF-8 if it is valid UTF-8, else ISO 8859-1, Java's default."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, joined at backslashes, without comments, blank lines and indents."""
    joined, first = "", 0
    is_continued = False
    for number, raw in enumerate(LINE_END.split(text), 1):
        line = raw.lstrip(BLANK)
        if not joined:
            first = number
            if line[:1] in ("#", "!"):
                is_continued = False
                continue
        joined += line
        is_continued = _ends_in_odd_backslashes(line)
        if is_continued:
            joined = joined[:-1]
        elif joined:
            yield first, joined
            joined = ""
    if is_continued and joined:
        yield first, joined


def _ends_in_odd_backslashes(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    characters = ESCAPE.sub(_replace_escape, text)
    # Java writes a character above U+FFFF as two escapes (a surrogate pair), which become one character here.
    try:
        return characters.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError("an incomplete surrogate pair is not a character") from None


def _replace_escape(match: re.Match[str]) -> str:
    escaped = match[1]
    if not escaped.startswith("u"):
        return NAMED.get(escaped, escaped)
    digits = escaped[1:]
    if re.fullmatch(r"[0-9a-fA-F]{4}", digits) is None:
        raise ValueError(f"\\u must be followed by four hexadecimal digits, not by {digits!r}")
    return chr(int(digits, 16))
