"""Parses `sasl.jaas.config`: the login module and its options, in the syntax of Java's login files.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="s3cret";

Only the last part of the module's name counts here. Secrets never appear in an error message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from penstock.client.errors import BadConfiguration

FLAGS = ("required", "requisite", "sufficient", "optional")

_QUOTED = r'"(?:[^"\\]|\\.)*"|' + r"'(?:[^'\\]|\\.)*'"
_OPTION = re.compile(rf"\s*([A-Za-z0-9_.]+)\s*=\s*({_QUOTED}|[^\s;\"']+)")
_HEAD = re.compile(r"\s*([A-Za-z0-9_.$]+)\s+([A-Za-z]+)")


class Login(NamedTuple):
    module: str
    """Without its package: PlainLoginModule."""
    options: Mapping[str, str]

    def option(self, name: str) -> str:
        """A required option."""
        if name not in self.options:
            raise BadConfiguration(f'sasl.jaas.config: {self.module} lacks {name}="..."')
        return self.options[name]


def parse_login(text: str) -> Login:
    """The only entry of the text."""
    head = _HEAD.match(text)
    if head is None or head[2].lower() not in FLAGS:
        raise BadConfiguration(
            "sasl.jaas.config must be a login module, the word required and its options, as in "
            '`org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";`'
        )
    options: dict[str, str] = {}
    position = head.end()
    while (matched := _OPTION.match(text, position)) is not None:
        options[matched[1]] = _unquoted(matched[2])
        position = matched.end()
    rest = text[position:].strip()
    if rest != ";":
        problem = "must end with a semicolon" if not rest else f"cannot be read after {len(options)} options"
        raise BadConfiguration(f'sasl.jaas.config {problem}; write options as name="value"')
    return Login(head[1].rpartition(".")[2], options)


def _unquoted(value: str) -> str:
    if value[0] in "\"'":
        return re.sub(r"\\(.)", r"\1", value[1:-1])
    return value
