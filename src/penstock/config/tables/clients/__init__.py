"""What a program can say to its producers, consumers and admins: every setting of Apache Kafka 4.3's clients.

Declared as the broker's are. A value may also be an object here (a serializer, an interceptor), and several settings
mean something together: `penstock.client.settings` sees to both.
"""

from __future__ import annotations

from penstock.config.tables.clients import admin, consumer, producer

__all__ = ["ADMIN", "CONSUMER", "PRODUCER"]

PRODUCER = {setting.name: setting for setting in producer.SETTINGS}
CONSUMER = {setting.name: setting for setting in consumer.SETTINGS}
ADMIN = {setting.name: setting for setting in admin.SETTINGS}
