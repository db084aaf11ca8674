"""The tree of exceptions, held to the table of codes that it is made from."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from penstock.cli import commands
from penstock.cli.declare import Group
from penstock.client import errors
from penstock.client.errors.base import BY_CODE
from penstock.protocol.errors import ErrorCode

CLASSES = [
    value
    for name in errors.__all__
    if inspect.isclass(value := getattr(errors, name))
    and issubclass(value, errors.PenstockError)
    and not issubclass(value, ExceptionGroup)  # it is made of others
]
FAMILIES = {
    errors.BrokerError,
    errors.AuthorizationError,
    errors.Fenced,
    errors.StaleMetadata,
    errors.CoordinatorUnavailable,
}


def test_every_code_but_none_has_one_class() -> None:
    assert set(BY_CODE) == set(ErrorCode) - {ErrorCode.NONE}
    assert len(set(BY_CODE.values())) == len(BY_CODE)


def test_every_class_is_seen_from_outside() -> None:
    assert set(BY_CODE.values()) <= set(CLASSES)
    assert {each for each in CLASSES if issubclass(each, errors.BrokerError)} == {
        *BY_CODE.values()
    } | FAMILIES


@pytest.mark.parametrize("code", sorted(BY_CODE), ids=lambda code: code.name)
def test_an_error_of_a_code_says_what_the_table_says(code: ErrorCode) -> None:
    error = errors.of(int(code))

    assert error.code is code
    assert error.retriable is code.is_retriable
    assert code.message in str(error)
    assert code.name in str(error)


def test_help_tells_what_the_table_says() -> None:
    assert errors.InvalidGroupId.__doc__ == "INVALID_GROUP_ID (24): the group's id is not valid."
    assert all(kind.__doc__ for kind in CLASSES)


def test_the_brokers_own_words_go_before_the_tables() -> None:
    error = errors.of(ErrorCode.INVALID_CONFIG, "retention.ms=x: must be an integer", about="orders")

    assert str(error).startswith("orders: retention.ms=x: must be an integer; ")
    assert ErrorCode.INVALID_CONFIG.message not in str(error)


def test_empty_words_of_a_broker_are_no_words() -> None:
    assert ErrorCode.INVALID_CONFIG.message in str(errors.of(ErrorCode.INVALID_CONFIG, ""))


def test_a_code_of_the_future_is_named_by_its_number() -> None:
    error = errors.of(4711)

    assert type(error) is errors.UnknownServerError
    assert "4711" in str(error)


def test_no_error_is_refused() -> None:
    with pytest.raises(AssertionError):
        errors.of(0)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_exception_travels_to_another_process(kind: type[errors.PenstockError]) -> None:
    error = kind("words")
    error.__dict__["about"] = "orders-0"

    arrived = pickle.loads(pickle.dumps(error))

    assert type(arrived) is kind
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_words_are_a_sentence_without_its_end(kind: type[errors.PenstockError]) -> None:
    for part in (kind.advice, kind()._own_words()):
        assert not part.endswith(".")
        assert "\n" not in part
        assert part[:1] == part[:1].lower()


@pytest.mark.parametrize(
    ("kind", "base"),
    [
        (errors.BadConfiguration, ValueError),
        (errors.RecordTooLarge, ValueError),
        (errors.TimedOut, TimeoutError),
        (errors.BufferFull, TimeoutError),
        (errors.Disconnected, ConnectionError),
        (errors.NoBrokersAvailable, ConnectionError),
        (errors.ClientClosed, RuntimeError),
    ],
)
def test_an_exception_is_also_what_python_people_catch(
    kind: type[errors.PenstockError], base: type[Exception]
) -> None:
    assert issubclass(kind, base)


def test_a_family_is_caught_as_one() -> None:
    with pytest.raises(errors.AuthorizationError):
        raise errors.of(ErrorCode.TOPIC_AUTHORIZATION_FAILED, about="orders")
    with pytest.raises(errors.AuthenticationError):
        raise errors.of(ErrorCode.SASL_AUTHENTICATION_FAILED)
    with pytest.raises(errors.Fenced):
        raise errors.of(ErrorCode.PRODUCER_FENCED)


def test_commands_that_are_advised_exist() -> None:
    advised = {line for kind in CLASSES for line in re.findall(r"`penstock ([^`]*)`", kind.advice)}

    assert advised
    for line in advised:
        name, _, rest = line.partition(" ")
        command = commands.load(name)
        assert not rest or (isinstance(command, Group) and rest in command.commands), line


def test_several_failures_travel_together() -> None:
    failed = errors.ItemsFailed.of(
        "topics", {"a": errors.of(ErrorCode.TOPIC_ALREADY_EXISTS), "b": errors.TimedOut("late")}, {"c": 1}
    )

    arrived = pickle.loads(pickle.dumps(failed))

    assert str(arrived) == str(failed)
    assert list(arrived.failures) == ["a", "b"]
    assert arrived.results == {"c": 1}


def test_an_unreachable_cluster_is_told_address_by_address() -> None:
    error = errors.NoBrokersAvailable(attempts={"a:9092": "connection refused", "b:9092": "no such host"})

    assert "a:9092: connection refused; b:9092: no such host" in str(error)


def test_a_subclass_without_words_tells_its_own() -> None:
    assert str(errors.ClientClosed()) == "the client was closed, and takes no more calls; make a new one"
    assert repr(errors.CommitFailed("late")).startswith("CommitFailed('late; ")
