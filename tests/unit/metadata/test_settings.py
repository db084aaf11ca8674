"""Recorded settings always load again, whatever the file has become since."""

from dataclasses import replace

from penstock.config.broker import BrokerSettings
from penstock.metadata.image import EMPTY_IMAGE
from penstock.metadata.resources import broker_resource
from penstock.metadata.settings import DynamicSettings


def test_recorded_settings_at_odds_with_the_file_are_left_out_instead_of_hanging_the_start() -> None:
    static = BrokerSettings.load({"node.id": "1", "advertised.listeners": "PLAINTEXT://h:1"})
    recorded = {
        "listeners": "INSIDE://:1",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    }
    image = replace(EMPTY_IMAGE, configs={broker_resource(1): recorded})

    settings = DynamicSettings(static).of_broker(image)

    assert settings.dynamic_broker == {}
