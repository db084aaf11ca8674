"""Requests from Admin's types, and types from responses: one module per family, without I/O and decisions.

A module is imported on first use (`wire.topics`), because it imports its protocol messages, and a command that lists
topics should not load those of ACLs.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.client.admin.wire import acls as acls
    from penstock.client.admin.wire import cluster as cluster
    from penstock.client.admin.wire import configs as configs
    from penstock.client.admin.wire import features as features
    from penstock.client.admin.wire import group_offsets as group_offsets
    from penstock.client.admin.wire import groups as groups
    from penstock.client.admin.wire import log_dirs as log_dirs
    from penstock.client.admin.wire import offsets as offsets
    from penstock.client.admin.wire import quorum as quorum
    from penstock.client.admin.wire import quotas as quotas
    from penstock.client.admin.wire import reassignment as reassignment
    from penstock.client.admin.wire import share_groups as share_groups
    from penstock.client.admin.wire import times as times
    from penstock.client.admin.wire import tokens as tokens
    from penstock.client.admin.wire import topic_descriptions as topic_descriptions
    from penstock.client.admin.wire import topics as topics
    from penstock.client.admin.wire import transactions as transactions
    from penstock.client.admin.wire import users as users


def __getattr__(name: str) -> ModuleType:
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as missing:
        raise AttributeError(name) from missing
