"""Commands that errors advise exist."""

from __future__ import annotations

import re

import pytest

from penstock.cli import commands
from penstock.cli.declare import Group
from penstock.client import errors
from penstock.client.errors.base import PenstockError

ADVISED = re.compile(r"`penstock ([^`]+)`")


def advised() -> list[str]:
    classes = [
        each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, PenstockError)
    ]
    return sorted({line for each in classes for line in ADVISED.findall(each.advice)})


@pytest.mark.parametrize("line", advised())
def test_a_command_that_is_advised_exists(line: str) -> None:
    name, *rest = line.split()

    command = commands.load(name)

    if isinstance(command, Group):
        assert rest[0] in command.commands
