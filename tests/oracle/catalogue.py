"""All messages that Penstock declares, for tests that check every one of them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import penstock.metadata.records
import penstock.protocol.messages
from penstock.coordinator.group import records as group_records
from penstock.coordinator.txn import records as transaction_records
from penstock.protocol import headers
from penstock.protocol.declare import Kind, declaration_of

Message = type[Any]


def declared_messages() -> dict[str, Message]:
    """Requests, responses, headers and data inside bytes fields, by name."""
    package = penstock.protocol.messages
    names = [f"{package.__name__}.{module.name}" for module in pkgutil.iter_modules(package.__path__)]
    modules = [importlib.import_module(name) for name in names]
    return {cls.__name__: cls for module in [*modules, headers] for cls in _messages_of(module)}


def declared_records() -> dict[str, Message]:
    """The records of the metadata log, by name."""
    return {cls.__name__: cls for cls in penstock.metadata.records.RECORDS.values()}


def declared_group_records() -> dict[str, Message]:
    """The records of `__consumer_offsets`, keys and values, by name."""
    return {cls.__name__: cls for pair in group_records.TYPES for cls in pair}


def declared_transaction_records() -> dict[str, Message]:
    """The records of `__transaction_state`, keys and values, by name."""
    return {cls.__name__: cls for pair in transaction_records.TYPES for cls in pair}


def versions_of(messages: dict[str, Message]) -> Iterator[tuple[Message, int]]:
    for cls in messages.values():
        for version in declaration_of(cls).versions:
            yield cls, version


def _messages_of(module: Any) -> Iterator[Message]:
    for value in vars(module).values():
        is_own = isinstance(value, type) and value.__module__ == module.__name__
        if is_own and "__declaration__" in value.__dict__ and declaration_of(value).kind is not Kind.STRUCT:
            yield value
