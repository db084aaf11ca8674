"""Objects that a setting names by import path."""

from __future__ import annotations

import collections
import json
import os.path

import pytest

from penstock.client.errors import BadConfiguration
from penstock.client.importing import find


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("json:dumps", json.dumps),
        ("json.dumps", json.dumps),
        ("os.path:join", os.path.join),
        ("collections:OrderedDict.fromkeys", collections.OrderedDict.fromkeys),
    ],
)
def test_an_import_path_is_a_module_and_a_name(place: str, found: object) -> None:
    assert find(place, what="interceptor") == found


@pytest.mark.parametrize("place", ["", "dumps", ":dumps", "json:", "no.such:thing", "json:no_such"])
def test_an_import_path_without_an_object_is_rejected(place: str) -> None:
    with pytest.raises(BadConfiguration, match="the interceptor"):
        find(place, what="interceptor")
