"""Features of the cluster and their levels (KIP-584): which are in force, which are supported, and changing them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls
from penstock.client.admin.outcome import Answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    name: str
    level: int
    """In force in the whole cluster; 0: off."""
    supported_min: int | None
    """By the broker that was asked; None where it does not know the feature."""
    supported_max: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturesDescription:
    features: Mapping[str, Feature]
    epoch: int | None
    """Of the metadata by which the levels were told."""


class UpgradeType(enum.IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3
    """May lose metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdate:
    level: int
    """0 turns the feature off."""
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


class FeaturesAdmin(AdminCalls):
    async def describe_features(
        self, *, broker: int | None = None, timeout: float | None = None
    ) -> FeaturesDescription:
        """As any broker tells it, or one."""
        call = self._begin("describe features", timeout)
        return wire.features.read_described(await call.ask_node(broker, wire.features.describe_request()))

    async def update_features(
        self,
        updates: Mapping[str, int | FeatureUpdate],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[str, None]:
        """Change levels: `update_features({"metadata.version": 29})`. Brokers of Kafka 4.0 and later do all or none."""
        call = self._begin("update features", timeout)
        wanted = {
            name: update if isinstance(update, FeatureUpdate) else FeatureUpdate(level=update)
            for name, update in updates.items()
        }

        async def attempt(names: list[str]) -> Answers[str, None]:
            request = wire.features.update_request(
                {name: wanted[name] for name in names},
                timeout_ms=call.request_ms(),
                validate_only=validate_only,
            )
            return wire.features.read_updated(names, await call.ask_controller(request))

        return await call.each(wanted, attempt)
