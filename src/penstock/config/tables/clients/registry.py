"""Settings of the schema registry. They are not Kafka's own, but the usual names.

Kafka's clients pass unknown settings to their serializers; these are the ones that our serializers read.
"""

from __future__ import annotations

from penstock.config.declare import DISTINCT, items, secret

SETTINGS = (
    items("schema.registry.url", (), DISTINCT).means(
        "The URLs of a schema registry, for the serializers `avro`, `json-schema` and `protobuf`."
    ),
    secret("basic.auth.user.info").means("The credentials for the schema registry, as user:password."),
)
