"""The sync admin: the same calls as the async one."""

from __future__ import annotations

import inspect
import pickle

import pytest

from penstock.client import errors
from penstock.client.admin import aio, sync

CALLS = sorted(
    name
    for name, member in inspect.getmembers(aio.Admin, inspect.iscoroutinefunction)
    if not name.startswith("_") and name != "close"
)


@pytest.mark.parametrize("name", CALLS)
def test_every_sync_call_has_the_arguments_and_docstring_of_the_async_one(name: str) -> None:
    twin = getattr(sync.Admin, name)

    assert inspect.signature(twin) == inspect.signature(getattr(aio.Admin, name))
    assert twin.__doc__ == getattr(aio.Admin, name).__doc__


def test_a_constructor_checks_and_opens_nothing() -> None:
    sync.Admin("localhost:1").close()
    with pytest.raises(errors.BadConfiguration, match=r"request\.timeout\.ms"):
        sync.Admin("localhost:1", settings={"request.timeout.m": 5})


def test_a_closed_admin_rejects_calls_and_may_be_closed_again() -> None:
    admin = sync.Admin("localhost:1")
    admin.close()
    admin.close()

    with pytest.raises(errors.ClientClosed):
        admin.list_topics()


def test_except_star_splits_items_failed_by_class() -> None:
    exists, denied = errors.TopicAlreadyExists(about="a"), errors.TopicAuthorizationFailed(about="b")
    group = errors.ItemsFailed.of("create topics", {"a": exists, "b": denied}, {"c": 1})

    def create() -> None:
        try:
            raise group
        except* errors.TopicAlreadyExists as part:
            taken.append(part.exceptions)

    taken: list[object] = []
    with pytest.raises(errors.PenstockError) as rest:
        create()

    assert taken == [(exists,)]
    assert isinstance(rest.value, errors.ItemsFailed)
    assert (rest.value.failures, rest.value.results) == ({"b": denied}, {"c": 1})


def test_items_failed_can_be_pickled() -> None:
    group = errors.ItemsFailed.of("create topics", {"a": errors.TopicAlreadyExists(about="a")}, {})

    copy = pickle.loads(pickle.dumps(group))

    assert str(copy) == str(group)
    assert list(copy.failures) == ["a"]


def test_one_failure_is_one_sentence_and_several_are_lines() -> None:
    one = {"a": errors.TopicAlreadyExists(about="a")}
    several = {**one, "b": errors.InvalidPartitions(about="b")}

    assert str(errors.ItemsFailed.of("create topics", one, {})).startswith("could not create topics: a: ")
    assert str(errors.ItemsFailed.of("create topics", several, {"c": 1})).splitlines()[0] == (
        "could not create topics: 2 of 3 failed:"
    )
