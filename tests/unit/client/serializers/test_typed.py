"""Types that are sent to workers: a class must stay picklable after a decoder was made for it."""

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
    """A module that only this process has, like the file of a pipeline."""
    from pyspark import cloudpickle

    module = ModuleType("program_of_this_test")
    sys.modules[module.__name__] = module
    exec(PROGRAM, module.__dict__)
    cloudpickle.register_pickle_by_value(module)
    yield module
    cloudpickle.unregister_pickle_by_value(module)
    del sys.modules[module.__name__]


def test_a_decoded_dataclass_can_still_be_sent_to_workers(program: Any) -> None:
    from pyspark import cloudpickle

    decode = decoder_of(list[program.Customer])

    there = pickle.loads(cloudpickle.dumps(program.Customer))

    data = b'[{"city": {"name": "Bern"}, "friends": [{"city": {"name": "Oslo"}, "friends": []}]}]'
    assert decode(data)[0].friends[0].city == {"name": "Oslo"}
    assert decoder_of(there)(data[1:-1]).city == {"name": "Bern"}
