"""Features of the cluster and their levels (KIP-584): describe and update."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls
from penstock.client.admin.results import Results


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A feature: its finalized level and the supported ones."""

    name: str
    level: int
    """The finalized level in the cluster; 0: off."""
    supported_min: int | None
    """Supported by the broker that was asked; None if it does not know the feature."""
    supported_max: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturesDescription:
    """All features of the cluster."""

    features: Mapping[str, Feature]
    epoch: int | None
    """The epoch of the finalized features."""


class UpgradeType(enum.IntEnum):
    """Which changes of a level are allowed."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3
    """May lose metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdate:
    """A new level for a feature."""

    level: int
    """0 turns the feature off."""
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


class FeaturesAdmin(AdminCalls):
    async def describe_features(
        self, *, broker: int | None = None, timeout: float | None = None
    ) -> FeaturesDescription:
        """The features, as any broker or the given one reports them."""
        call = self._begin("describe features", timeout)
        return wire.features.read_described(await call.ask_node(broker, wire.features.describe_request()))

    async def update_features(
        self,
        updates: Mapping[str, int | FeatureUpdate],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[str, None]:
        """Change levels: `update_features({"metadata.version": 29})`. Brokers of Kafka 4.0 and later change all or
        none."""
        call = self._begin("update features", timeout)
        wanted = {
            name: update if isinstance(update, FeatureUpdate) else FeatureUpdate(level=update)
            for name, update in updates.items()
        }

        async def attempt(names: list[str]) -> Results[str, None]:
            request = wire.features.update_request(
                {name: wanted[name] for name in names},
                timeout_ms=call.request_ms(),
                validate_only=validate_only,
            )
            return wire.features.read_updated(names, await call.ask_controller(request))

        return await call.run_each(wanted, attempt)
