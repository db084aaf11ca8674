"""Where schemas are kept. Not Kafka's own, but the names under which everybody's files have them.

Kafka's clients hand settings that they do not know to their serializers; these are those that ours read.
"""

from __future__ import annotations

from penstock.config.declare import DISTINCT, items, secret

SETTINGS = (
    items("schema.registry.url", (), DISTINCT).means(
        "Addresses of a schema registry, for serializers that are only named: `avro`, `json-schema`, `protobuf`."
    ),
    secret("basic.auth.user.info").means("Who asks the registry, as user:password."),
)
