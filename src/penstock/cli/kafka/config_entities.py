"""The entities of `kafka-configs.sh`: resources with configs, quotas, and SCRAM credentials."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from penstock.cli.kafka.configs import DEFAULT_NAME, Entity
from penstock.cli.kafka.tool import CommandFailed
from penstock.client.admin.cluster import ClusterAdmin
from penstock.client.admin.configs import (
    ConfigEntry,
    ConfigResource,
    ConfigsAdmin,
    ConfigSource,
    ResourceType,
)
from penstock.client.admin.groups import GroupsAdmin
from penstock.client.admin.quotas import ANY, QuotaEntity, QuotaFilter, QuotasAdmin
from penstock.client.admin.topics import TopicsAdmin
from penstock.client.admin.users import (
    ScramCredential,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
    UsersAdmin,
)
from penstock.client.errors import ItemsFailed, ResourceNotFound

RESOURCES = {
    "topics": ResourceType.TOPIC,
    "brokers": ResourceType.BROKER,
    "broker-loggers": ResourceType.BROKER_LOGGER,
    "client-metrics": ResourceType.CLIENT_METRICS,
    "groups": ResourceType.GROUP,
}
OWN_SOURCE = {
    "topics": ConfigSource.TOPIC,
    "brokers": ConfigSource.BROKER,
    "client-metrics": ConfigSource.CLIENT_METRICS,
    "groups": ConfigSource.GROUP,
}
QUOTA_KINDS = {"users": "user", "clients": "client-id", "ips": "ip"}
QUOTA_TEXTS = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
SOURCE_NAMES = {
    ConfigSource.UNKNOWN: "UNKNOWN",
    ConfigSource.TOPIC: "DYNAMIC_TOPIC_CONFIG",
    ConfigSource.BROKER: "DYNAMIC_BROKER_CONFIG",
    ConfigSource.ALL_BROKERS: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    ConfigSource.FILE: "STATIC_BROKER_CONFIG",
    ConfigSource.DEFAULT: "DEFAULT_CONFIG",
    ConfigSource.BROKER_LOGGER: "DYNAMIC_BROKER_LOGGER_CONFIG",
    ConfigSource.CLIENT_METRICS: "DYNAMIC_CLIENT_METRICS_CONFIG",
    ConfigSource.GROUP: "DYNAMIC_GROUP_CONFIG",
}
SCRAM = {each.spelled: each for each in ScramMechanism}
SCRAM_ITERATIONS = 4096  # the default, and the minimum of the mechanisms
CREDENTIAL = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)")


class ConfigsTool(ConfigsAdmin, TopicsAdmin, ClusterAdmin, GroupsAdmin, QuotasAdmin, UsersAdmin):
    """The families of admin calls that the tool needs."""

    async def describe(self, entities: Sequence[Entity], *, describes_all: bool) -> None:
        first = entities[0]
        if first.type in RESOURCES:
            existing = await self._names(first.type)
            if first.name is not None and _resource(first.type, first.name).name not in existing:
                print(
                    f"The {_single(first.type)} '{first.name}' doesn't exist and doesn't have dynamic config."
                )
                return
            for name in existing if first.name is None else [first.name]:
                await self._describe_resource(first.type, name, describes_all=describes_all)
            return
        await self._describe_quotas(entities)
        named = [entity.name for entity in entities if entity.name is not None]
        if first.type == "users" and len(entities) == 1 and DEFAULT_NAME not in named:
            await self._describe_credentials(named)

    async def _names(self, kind: str) -> list[str]:
        if kind == "topics":
            return [topic.name for topic in await self.list_topics(include_internal=True)]
        if kind in ("brokers", "broker-loggers"):
            cluster = await self.describe_cluster()
            return [*(str(broker.id) for broker in cluster.brokers), DEFAULT_NAME]
        if kind == "groups":
            listed = await self.list_config_resources([ResourceType.GROUP])
            groups = {group.group_id for group in await self.list_groups()}
            return sorted(groups | {resource.name for resource in listed})
        return [resource.name for resource in await self.list_config_resources([ResourceType.CLIENT_METRICS])]

    async def _describe_resource(self, kind: str, name: str, *, describes_all: bool) -> None:
        if name == DEFAULT_NAME:
            print(f"Default configs for {kind} in the cluster are:")
        else:
            print(f"{'All' if describes_all else 'Dynamic'} configs for {_single(kind)} {name} are:")
        for entry in await self._entries(kind, name, describes_all=describes_all):
            synonyms = ", ".join(
                f"{SOURCE_NAMES[each.source]}:{each.name}={_shown(each.value)}" for each in entry.synonyms
            )
            secret = "true" if entry.is_sensitive else "false"
            print(f"  {entry.name}={_shown(entry.value)} sensitive={secret} synonyms={{{synonyms}}}")

    async def _entries(self, kind: str, name: str, *, describes_all: bool) -> list[ConfigEntry]:
        config = await self.describe_config(_resource(kind, name), synonyms=True)
        own = OWN_SOURCE.get(kind)
        if kind == "brokers" and name == DEFAULT_NAME:
            own = ConfigSource.ALL_BROKERS
        return [
            config[key] for key in sorted(config) if describes_all or own is None or config[key].source is own
        ]

    async def _describe_quotas(self, entities: Sequence[Entity]) -> None:
        found = await self.describe_quotas(_filter(entities))
        for entity, quotas in found.items():
            entity_text = ", ".join(_quota_text(kind, name) for kind, name in entity.parts)
            text = ", ".join(f"{name}={value}" for name, value in quotas.items())
            print(f"Quota configs for {entity_text} are {text}")

    async def _describe_credentials(self, users: list[str]) -> None:
        try:
            found: Mapping[str, list[ScramCredential]] = await self.describe_users(users or None)
        except ItemsFailed as failed:
            if not all(isinstance(error, ResourceNotFound) for error in failed.exceptions):
                raise
            found = failed.results  # users without credentials are not an error
        for user, credentials in found.items():
            text = ", ".join(f"{each.mechanism.spelled}=iterations={each.iterations}" for each in credentials)
            print(f"SCRAM credential configs for user-principal '{user}' are {text}")

    async def alter(
        self, entities: Sequence[Entity], added: Mapping[str, str], deleted: Sequence[str]
    ) -> None:
        first = entities[0]
        assert first.name is not None
        if first.type in RESOURCES:
            await self._alter_resource(first.type, first.name, added, deleted)
        elif first.type == "users" and len(entities) == 1 and any(key in SCRAM for key in (*added, *deleted)):
            await self._alter_credentials(first.name, added, deleted)
        else:
            await self._alter_quotas(entities, added, deleted)
        if first.name == DEFAULT_NAME:
            print(f"Completed updating default config for {first.type} in the cluster.")
        else:
            print(f"Completed updating config for {_single(first.type)} {first.name}.")

    async def _alter_resource(
        self, kind: str, name: str, added: Mapping[str, str], deleted: Sequence[str]
    ) -> None:
        if kind == "broker-loggers":
            there = {entry.name for entry in await self._entries(kind, name, describes_all=False)}
            if missing := [logger for logger in (*deleted, *added) if logger not in there]:
                raise CommandFailed(f"Invalid broker logger(s): {','.join(missing)}")
        await self.alter_config(_resource(kind, name), added, unset=list(deleted))

    async def _alter_credentials(self, user: str, added: Mapping[str, str], deleted: Sequence[str]) -> None:
        if user == DEFAULT_NAME:
            raise CommandFailed(
                "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using "
                "--bootstrap-server."
            )
        if any(key not in SCRAM for key in (*added, *deleted)):
            raise CommandFailed(
                "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using "
                "--bootstrap-server."
            )
        await self.alter_users(
            [
                *(ScramDeletion(user=user, mechanism=SCRAM[key]) for key in deleted),
                *(_upsertion(user, SCRAM[key], text) for key, text in added.items()),
            ]
        )

    async def _alter_quotas(
        self, entities: Sequence[Entity], added: Mapping[str, str], deleted: Sequence[str]
    ) -> None:
        quota_entity = QuotaEntity(
            tuple(sorted(((QUOTA_KINDS[e.type], e.name or None) for e in entities), reverse=True))
        )
        there = (await self.describe_quotas(_filter(entities))).get(quota_entity, {})
        if missing := [name for name in deleted if name not in there]:
            raise CommandFailed(f"Invalid config(s): {','.join(missing)}")
        changes: dict[str, float | None] = dict.fromkeys(deleted)
        for name, text in added.items():
            try:
                changes[name] = float(text)
            except ValueError:
                raise CommandFailed(f"Cannot parse quota configuration value for {name}: {text}") from None
        await self.alter_quotas({quota_entity: changes})


def _upsertion(user: str, mechanism: ScramMechanism, text: str) -> ScramUpsertion:
    found = CREDENTIAL.fullmatch(text)
    if found is None:
        raise CommandFailed(f"Invalid credential property {mechanism.spelled}={text}")
    given, password = found.groups()
    iterations = SCRAM_ITERATIONS if given in (None, "", "-1") else int(given)
    if iterations < SCRAM_ITERATIONS:
        raise CommandFailed(
            f"Iterations {iterations} is less than the minimum {SCRAM_ITERATIONS} required for {mechanism.spelled}"
        )
    return ScramUpsertion(user=user, password=password, mechanism=mechanism, iterations=iterations)


def _resource(kind: str, name: str) -> ConfigResource:
    if kind in ("brokers", "broker-loggers") and name and not name.isdecimal():
        raise CommandFailed(
            f"The entity name for {kind} must be a valid integer broker id, but it is: {name}"
        )
    return ConfigResource(RESOURCES[kind], name)


def _filter(entities: Sequence[Entity]) -> QuotaFilter:
    parts = {
        QUOTA_KINDS[entity.type]: ANY if entity.name is None else entity.name or None for entity in entities
    }
    return QuotaFilter(parts=parts, strict=True)


def _quota_text(kind: str, name: str | None) -> str:
    return f"the default {QUOTA_TEXTS[kind]}" if name is None else f"{QUOTA_TEXTS[kind]} '{name}'"


def _single(kind: str) -> str:
    """`topics` to `topic`; like Kafka's tool, it also cuts the last letter of `client-metrics`."""
    return kind[:-1]


def _shown(value: str | None) -> str:
    return "null" if value is None else value
