"""The tree of exceptions, compared with the table of error codes."""

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
    and not issubclass(value, ExceptionGroup)  # it is made of other errors
]
FAMILIES = {
    errors.BrokerError,
    errors.AuthorizationError,
    errors.Fenced,
    errors.StaleMetadata,
    errors.CoordinatorUnavailable,
}


def test_every_code_except_none_has_one_class() -> None:
    assert set(BY_CODE) == set(ErrorCode) - {ErrorCode.NONE}
    assert len(set(BY_CODE.values())) == len(BY_CODE)


def test_every_class_is_exported() -> None:
    assert set(BY_CODE.values()) <= set(CLASSES)
    assert {each for each in CLASSES if issubclass(each, errors.BrokerError)} == {
        *BY_CODE.values()
    } | FAMILIES


@pytest.mark.parametrize("code", sorted(BY_CODE), ids=lambda code: code.name)
def test_an_error_has_the_message_of_its_code(code: ErrorCode) -> None:
    error = errors.of(int(code))

    assert error.code is code
    assert error.retriable is code.is_retriable
    assert code.message in str(error)
    assert code.name in str(error)


def test_help_shows_the_message_of_the_code() -> None:
    assert errors.InvalidGroupId.__doc__ == "INVALID_GROUP_ID (24): the group id is not valid."
    assert all(kind.__doc__ for kind in CLASSES)


def test_the_brokers_message_replaces_the_default() -> None:
    error = errors.of(ErrorCode.INVALID_CONFIG, "retention.ms=x: must be an integer", about="orders")

    assert str(error).startswith("orders: retention.ms=x: must be an integer; ")
    assert ErrorCode.INVALID_CONFIG.message not in str(error)


def test_an_empty_message_of_a_broker_is_ignored() -> None:
    assert ErrorCode.INVALID_CONFIG.message in str(errors.of(ErrorCode.INVALID_CONFIG, ""))


def test_an_unknown_code_is_shown_by_its_number() -> None:
    error = errors.of(4711)

    assert type(error) is errors.UnknownServerError
    assert "4711" in str(error)


def test_none_is_not_an_error() -> None:
    with pytest.raises(AssertionError):
        errors.of(0)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_exception_can_be_pickled(kind: type[errors.PenstockError]) -> None:
    error = kind("message")
    error.__dict__["about"] = "orders-0"

    arrived = pickle.loads(pickle.dumps(error))

    assert type(arrived) is kind
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_messages_have_no_final_dot(kind: type[errors.PenstockError]) -> None:
    for part in (kind.advice, kind()._default_message()):
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
def test_exceptions_have_the_base_classes_of_the_standard_library(
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


def test_advised_commands_exist() -> None:
    advised = {line for kind in CLASSES for line in re.findall(r"`penstock ([^`]*)`", kind.advice)}

    assert advised
    for line in advised:
        name, _, rest = line.partition(" ")
        command = commands.load(name)
        assert not rest or (isinstance(command, Group) and rest in command.commands), line


def test_items_failed_holds_several_errors() -> None:
    failed = errors.ItemsFailed.of(
        "topics", {"a": errors.of(ErrorCode.TOPIC_ALREADY_EXISTS), "b": errors.TimedOut("late")}, {"c": 1}
    )

    arrived = pickle.loads(pickle.dumps(failed))

    assert str(arrived) == str(failed)
    assert list(arrived.failures) == ["a", "b"]
    assert arrived.results == {"c": 1}


def test_an_unreachable_cluster_is_reported_by_address() -> None:
    error = errors.NoBrokersAvailable(attempts={"a:9092": "connection refused", "b:9092": "no such host"})

    assert "a:9092: connection refused; b:9092: no such host" in str(error)


def test_a_subclass_without_a_message_uses_its_docstring() -> None:
    assert str(errors.ClientClosed()) == "the client is closed; create a new client"
    assert repr(errors.CommitFailed("late")).startswith("CommitFailed('late; ")
