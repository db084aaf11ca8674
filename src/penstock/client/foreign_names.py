"""Settings by the names that other clients of Kafka have for them, so that a refusal can name ours.

Only names that are not Kafka's own stand here, and only where there is something to say: librdkafka (and so
confluent-kafka) has its own for many, kafka-python and aiokafka for some.
"""

from __future__ import annotations

from typing import Final

# What it is called here.
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
    "api.version": "versions are asked of the broker; leave it out",
    "api.version.request": "versions are asked of the broker; leave it out",
    "broker.version.fallback": "versions are asked of the broker; leave it out",
    "consumer.timeout.ms": "poll(timeout=...) waits for so many seconds",
    "enable.auto.offset.store": "set enable.auto.commit=false and commit what is done",
    "enable.partition.eof": "read(until='end') ends at the end",
    "loop": "a client of penstock.aio uses the loop that runs",
    "statistics.interval.ms": "there are no statistics to call back with",
}


def lesson(name: str) -> str | None:
    """What to say to whoever uses another client's name (with dots), or None for a name that nobody has."""
    if name in RENAMED:
        return f"called {RENAMED[name]} here"
    return ELSEWHERE.get(name)
