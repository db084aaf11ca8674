"""Settings of producers, consumers and admins: all of the clients of Apache Kafka 4.3.

They are declared like those of the broker. A value may also be an object (a serializer, an interceptor).
`penstock.client.settings` handles objects, and settings that depend on each other.
"""

from __future__ import annotations

from penstock.config.tables.clients import admin, consumer, producer

__all__ = ["ADMIN", "CONSUMER", "PRODUCER"]

PRODUCER = {setting.name: setting for setting in producer.SETTINGS}
CONSUMER = {setting.name: setting for setting in consumer.SETTINGS}
ADMIN = {setting.name: setting for setting in admin.SETTINGS}
