"""Hints for options of other Kafka clients: the name here, or what to do instead.

Only names that are not Kafka's own are listed, where there is something to say: librdkafka (and so confluent-kafka) has
its own names for many options, kafka-python and aiokafka for some.
"""

from __future__ import annotations

from typing import Final

# The name here.
RENAMED: Final = {
    # librdkafka
    "metadata.broker.list": "bootstrap.servers",
    "queue.buffering.max.ms": "linger.ms",
    "queue.buffering.max.kbytes": "buffer.memory",
    "message.timeout.ms": "delivery.timeout.ms",
    "message.send.max.retries": "retries",
    "message.max.bytes": "max.request.size",
    "request.required.acks": "acks",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "compression.codec": "compression.type",
    "partitioner": "partitioner.class",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "socket.timeout.ms": "request.timeout.ms",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.location",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.location",
    "ssl.key.pem": "ssl.keystore.key",
    # kafka-python, aiokafka
    "max.batch.size": "batch.size",
    "sasl.plain.username": "sasl.username",
    "sasl.plain.password": "sasl.password",
    "sasl.oauth.token.provider": "sasl.login.callback.handler.class",
    "ssl.context": "ssl.engine.factory.class",
    "ssl.cafile": "ssl.truststore.location",
    "ssl.certfile": "ssl.keystore.location",
    "ssl.keyfile": "ssl.keystore.location",
    "ssl.password": "ssl.key.password",
    "ssl.ciphers": "ssl.cipher.suites",
    "ssl.check.hostname": "ssl.endpoint.identification.algorithm",
}

# What to do instead.
ELSEWHERE: Final = {
    "api.version": "versions are negotiated with the broker; remove it",
    "api.version.request": "versions are negotiated with the broker; remove it",
    "broker.version.fallback": "versions are negotiated with the broker; remove it",
    "consumer.timeout.ms": "use poll(timeout=...), in seconds",
    "enable.auto.offset.store": "set enable.auto.commit=false and commit processed messages",
    "enable.partition.eof": "use read(until='end'), which stops at the end",
    "loop": "a penstock.aio client uses the running loop",
    "statistics.interval.ms": "there is no statistics callback; use metrics()",
}


def hint_for(name: str) -> str | None:
    """A hint for an option of another client (with dots); None for an unknown name."""
    if name in RENAMED:
        return f"called {RENAMED[name]} here"
    return ELSEWHERE.get(name)
