"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from penstock.broker import config_descriptions
from penstock.broker.broker import Broker
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import alter_configs as replacing
from penstock.protocol.messages import incremental_alter_configs as altering
from penstock.protocol.messages.create_topics import CreateTopicsRequest
from penstock.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
)
from penstock.protocol.messages.list_config_resources import ListConfigResourcesRequest
from unit.controller.clusters import new_topic

Ask = Callable[..., Awaitable[Any]]

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND = 0, 1, 2
LOGGER_NAME = "penstock.tests.a_logger"


@pytest.fixture(autouse=True)
async def topic(ask: Ask) -> None:
    await ask(CreateTopicsRequest(topics=[new_topic("t", 1, 1, configs={"retention.ms": "9"})]))


@pytest.fixture(autouse=True)
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger(LOGGER_NAME)
    root_level = logging.root.level
    yield logger
    logger.setLevel(logging.NOTSET)
    logging.root.setLevel(root_level)


def change(kind: int, name: str, *changes: tuple[str, int, str | None]) -> altering.AlterConfigsResource:
    return altering.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            altering.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )


async def alter(
    ask: Ask, *resources: altering.AlterConfigsResource, validate_only: bool = False, version: int = 1
) -> list[ErrorCode]:
    request = altering.IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    response = await ask(request, version=version)
    assert [(each.resource_type, each.resource_name) for each in response.responses] == [
        (each.resource_type, each.resource_name) for each in resources
    ]
    return [each.error_code for each in response.responses]


async def describe(
    ask: Ask, kind: int, name: str, keys: list[str] | None = None, *, version: int = 4, **options: bool
) -> DescribeConfigsResult:
    wanted = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    response = await ask(DescribeConfigsRequest(resources=[wanted], **options), version=version)
    (result,) = response.results
    return result


def values(result: DescribeConfigsResult) -> dict[str, str | None]:
    return {config.name: config.value for config in result.configs}


@pytest.mark.parametrize("version", range(5))
async def test_a_topics_settings_are_described_in_every_version(ask: Ask, version: int) -> None:
    result = await describe(ask, TOPIC, "t", ["retention.ms", "segment.ms"], version=version)

    by_name = {config.name: config for config in result.configs}
    assert values(result) == {"retention.ms": "9", "segment.ms": "604800000"}
    if version == 0:
        assert [by_name[name].is_default for name in ("retention.ms", "segment.ms")] == [False, True]
    else:
        assert [by_name[name].config_source for name in ("retention.ms", "segment.ms")] == [1, 5]
    if version >= 3:
        assert by_name["retention.ms"].config_type == 5


async def test_synonyms_and_documentation_are_returned_on_request(ask: Ask) -> None:
    plain = await describe(ask, TOPIC, "t", ["cleanup.policy"])
    assert plain.configs[0].synonyms == []
    assert plain.configs[0].documentation is None

    full = await describe(
        ask, TOPIC, "t", ["cleanup.policy"], include_synonyms=True, include_documentation=True
    )
    assert [synonym.name for synonym in full.configs[0].synonyms] == ["log.cleanup.policy"]
    assert full.configs[0].documentation


async def test_an_empty_list_of_keys_asks_for_all(ask: Ask) -> None:
    assert (
        len((await describe(ask, TOPIC, "t", [])).configs)
        == len((await describe(ask, TOPIC, "t")).configs)
        > 30
    )


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "nosuch", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "../x", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "77", ErrorCode.INVALID_REQUEST),
        (BROKER, "abc", ErrorCode.INVALID_REQUEST),
        (LOGGER, "77", ErrorCode.INVALID_REQUEST),
        (LOGGER, "", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (METRICS, "", ErrorCode.INVALID_REQUEST),
        (0, "x", ErrorCode.INVALID_REQUEST),
        (3, "x", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_invalid_resources_are_not_described(ask: Ask, kind: int, name: str, error: ErrorCode) -> None:
    result = await describe(ask, kind, name)

    assert result.error_code is error
    assert result.configs == []


async def test_a_nodes_settings_change_while_it_runs_and_are_in_force_at_once(
    ask: Ask, admin_broker: Broker
) -> None:
    assert await alter(
        ask,
        change(BROKER, "1", ("log.cleaner.threads", SET, "2")),
        change(BROKER, "", ("log.retention.ms", SET, "7000")),
    ) == [ErrorCode.NONE, ErrorCode.NONE]

    assert admin_broker.settings.get("log.cleaner.threads") == 2
    assert values(await describe(ask, BROKER, "1", ["log.retention.ms"])) == {"log.retention.ms": "7000"}
    assert values(await describe(ask, BROKER, ""))["log.retention.ms"] == "7000"


async def test_groups_and_subscriptions_are_altered_described_and_listed(ask: Ask) -> None:
    await alter(
        ask,
        change(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")),
        change(METRICS, "m", ("interval.ms", SET, "1000")),
    )

    assert values(await describe(ask, GROUP, "g"))["consumer.session.timeout.ms"] == "50000"
    assert values(await describe(ask, METRICS, "m"))["interval.ms"] == "1000"
    old = await ask(ListConfigResourcesRequest(), version=0)
    assert [resource.resource_name for resource in old.config_resources] == ["m"]


async def test_resources_are_listed_by_type(ask: Ask) -> None:
    async def listed(*types: int) -> list[tuple[int, str]]:
        response = await ask(ListConfigResourcesRequest(resource_types=list(types)))
        return [(each.resource_type, each.resource_name) for each in response.config_resources]

    assert await listed(TOPIC) == [(TOPIC, "t")]
    assert await listed(BROKER, LOGGER) == [(BROKER, "1"), (LOGGER, "1")]
    assert await listed() == [(TOPIC, "t"), (BROKER, "1"), (LOGGER, "1")]


@pytest.mark.parametrize("number", [0, 3])
async def test_an_unknown_type_cannot_be_listed(ask: Ask, number: int) -> None:
    response = await ask(ListConfigResourcesRequest(resource_types=[number]))

    assert response.error_code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("version", [0, 1])
async def test_validate_only_changes_nothing(ask: Ask, version: int) -> None:
    wanted = change(TOPIC, "t", ("retention.ms", SET, "5"))

    assert await alter(ask, wanted, validate_only=True, version=version) == [ErrorCode.NONE]
    assert values(await describe(ask, TOPIC, "t", ["retention.ms"])) == {"retention.ms": "9"}


@pytest.mark.parametrize(
    "wanted",
    [
        change(TOPIC, "t", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
        change(TOPIC, "t", ("retention.ms", SET, None)),
        change(TOPIC, "t", ("cleanup.policy", APPEND, None)),
        change(TOPIC, "t", ("retention.ms", 7, "1")),
        change(0, "x", ("a", SET, "1")),
        change(3, "x", ("a", SET, "1")),
    ],
)
async def test_requests_that_make_no_sense(ask: Ask, wanted: altering.AlterConfigsResource) -> None:
    assert await alter(ask, wanted) == [ErrorCode.INVALID_REQUEST]


async def test_a_resource_twice_is_refused_both_times(ask: Ask) -> None:
    wanted = change(TOPIC, "t", ("retention.ms", SET, "1"))

    assert await alter(ask, wanted, wanted) == [ErrorCode.INVALID_REQUEST] * 2


async def test_without_a_controller_everything_but_log_levels_is_refused(
    ask: Ask, no_controller: None
) -> None:
    assert await alter(
        ask,
        change(TOPIC, "t", ("retention.ms", SET, "1")),
        change(LOGGER, "1", (LOGGER_NAME, SET, "DEBUG")),
    ) == [ErrorCode.NOT_CONTROLLER, ErrorCode.NONE]


async def test_the_level_of_a_logger_is_set_described_and_taken_back(
    ask: Ask, logger: logging.Logger
) -> None:
    logging.root.setLevel(logging.WARNING)
    assert values(await describe(ask, LOGGER, "1", [LOGGER_NAME])) == {LOGGER_NAME: "WARN"}

    assert await alter(ask, change(LOGGER, "1", (LOGGER_NAME, SET, "TRACE"))) == [ErrorCode.NONE]
    assert values(await describe(ask, LOGGER, "1", [LOGGER_NAME])) == {LOGGER_NAME: "TRACE"}
    assert logger.isEnabledFor(logging.DEBUG)

    assert await alter(ask, change(LOGGER, "1", (LOGGER_NAME, DELETE, None))) == [ErrorCode.NONE]
    assert values(await describe(ask, LOGGER, "1", [LOGGER_NAME])) == {LOGGER_NAME: "WARN"}
    assert "root" in values(await describe(ask, LOGGER, "1"))


async def test_validating_a_level_does_not_set_it(ask: Ask, logger: logging.Logger) -> None:
    await alter(ask, change(LOGGER, "1", (LOGGER_NAME, SET, "DEBUG")), validate_only=True)

    assert logger.level == logging.NOTSET


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (change(LOGGER, "1", ("nosuch", SET, "DEBUG")), ErrorCode.INVALID_CONFIG),
        (change(LOGGER, "1", (LOGGER_NAME, SET, "LOUD")), ErrorCode.INVALID_CONFIG),
        (change(LOGGER, "1", ("root", DELETE, None)), ErrorCode.INVALID_REQUEST),
        (change(LOGGER, "1", ("root", APPEND, "INFO")), ErrorCode.INVALID_REQUEST),
        (change(LOGGER, "55", ("root", SET, "INFO")), ErrorCode.INVALID_REQUEST),
        (change(LOGGER, "", ("root", SET, "INFO")), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_invalid_log_levels_are_refused(
    ask: Ask, wanted: altering.AlterConfigsResource, error: ErrorCode
) -> None:
    assert await alter(ask, wanted) == [error]


@pytest.mark.parametrize("version", range(3))
async def test_the_old_request_replaces_everything(ask: Ask, version: int) -> None:
    request = replacing.AlterConfigsRequest(
        resources=[
            replacing.AlterConfigsResource(
                resource_type=TOPIC,
                resource_name="t",
                configs=[replacing.AlterableConfig(name="segment.ms", value="7")],
            ),
            replacing.AlterConfigsResource(
                resource_type=LOGGER,
                resource_name="1",
                configs=[replacing.AlterableConfig(name="root", value="INFO")],
            ),
        ],
        validate_only=False,
    )

    response = await ask(request, version=version)

    assert [each.error_code for each in response.responses] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert values(await describe(ask, TOPIC, "t", ["segment.ms", "retention.ms"])) == {
        "segment.ms": "7",
        "retention.ms": "604800000",
    }


async def test_a_request_for_very_many_resources_is_bounded(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_descriptions, "RESOURCES_MAX", 40)
    wanted = DescribeConfigsResource(resource_type=TOPIC, resource_name="t", configuration_keys=None)

    response = await ask(DescribeConfigsRequest(resources=[wanted] * 50))

    errors = [result.error_code for result in response.results]
    assert errors == [ErrorCode.NONE] * 40 + [ErrorCode.INVALID_REQUEST] * 10
    assert len({len(result.configs) for result in response.results[:40]}) == 1


async def test_topics_with_other_settings_are_described_each_by_itself(ask: Ask) -> None:
    await ask(CreateTopicsRequest(topics=[new_topic("u", 1, 1, configs={"retention.ms": "10"})]))
    resources = [
        DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=["retention.ms"])
        for name in ("t", "u")
    ]

    response = await ask(DescribeConfigsRequest(resources=resources))

    assert [values(result)["retention.ms"] for result in response.results] == ["9", "10"]


async def test_settings_and_loggers_of_another_broker_are_left_to_that_broker(ask: Ask) -> None:
    assert await alter(
        ask,
        change(BROKER, "2", ("log.cleaner.threads", SET, "2")),
        change(LOGGER, "2", (LOGGER_NAME, SET, "DEBUG")),
        change(BROKER, "1", ("log.cleaner.threads", SET, "2")),
    ) == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
