"""Escapes for characters that are hard to type in a shell: `--key-separator '\\t'` is a tab."""

from __future__ import annotations

import re

NAMED = {"t": "\t", "n": "\n", "r": "\r", "0": "\0", "\\": "\\"}
ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|[tnr0\\])")


def unescape(text: str) -> str:
    r"""`\t`, `\n`, `\r`, `\0`, `\xHH` and `\\` become characters; any other backslash stays."""
    return ESCAPE.sub(lambda found: NAMED.get(found[1]) or chr(int(found[1][1:], 16)), text)
