"""Types of programs that are sent to workers: making a decoder of one must not keep it at home."""

from __future__ import annotations

import pickle
import sys
from types import ModuleType
from typing import Any

import pytest

from penstock.client.serializers.typed import decoder_of

PROGRAM = """
from __future__ import annotations
from dataclasses import dataclass
from typing import TypedDict

class City(TypedDict):
    name: str

@dataclass
class Customer:
    city: City
    friends: list[Customer]
"""


@pytest.fixture
def program() -> Any:
    """A module that only this process has, as the file of a pipeline is."""
    from pyspark import cloudpickle

    module = ModuleType("program_of_this_test")
    sys.modules[module.__name__] = module
    exec(PROGRAM, module.__dict__)
    cloudpickle.register_pickle_by_value(module)
    yield module
    cloudpickle.unregister_pickle_by_value(module)
    del sys.modules[module.__name__]


def test_a_dataclass_that_was_decoded_can_still_be_sent_to_workers(program: Any) -> None:
    from pyspark import cloudpickle

    decode = decoder_of(list[program.Customer])

    there = pickle.loads(cloudpickle.dumps(program.Customer))

    data = b'[{"city": {"name": "Bern"}, "friends": [{"city": {"name": "Oslo"}, "friends": []}]}]'
    assert decode(data)[0].friends[0].city == {"name": "Oslo"}
    assert decoder_of(there)(data[1:-1]).city == {"name": "Bern"}
