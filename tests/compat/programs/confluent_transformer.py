"""Consume, transform, produce with confluent-kafka; order and events as compat.transactions.transformers has them."""

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from transformer_host import Order, run_until_told, tell, transformed

WAIT_S = 60.0
# With its default librdkafka 2.16, when all brokers were away, was seen to wait in `send_offsets_to_transaction` for
# ever, whatever the timeout, with Kafka; it seems to send to a coordinator that it has forgotten. This avoids it.
RECOVERY = {"metadata.recovery.strategy": "none"}


class Transformer:
    def __init__(self, order):
        self.order = order
        self.lump = []
        self.is_interrupted = False
        common = {
            "bootstrap.servers": order.bootstrap,
            "log_level": 0,
            "reconnect.backoff.max.ms": 200,
            **RECOVERY,
        }
        producer = {"transactional.id": order.transactional_id, "linger.ms": 0, **order.producer_settings}
        consumer = {
            "group.id": order.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            **order.consumer_settings,
        }
        self.producer = Producer({**common, **producer})
        self.consumer = Consumer({**common, **consumer})

    def run(self):
        try:
            retried(self.producer.init_transactions)
            self.consumer.subscribe(
                [self.order.input], on_revoke=self._interrupted, on_lost=self._interrupted
            )
            while not self.order.ending.is_set():
                self._poll()
                if self.lump:
                    self._transform()
        finally:
            self.consumer.close()

    def _interrupted(self, _consumer, _partitions):
        """Another member may have these partitions now: what was polled is polled again by whoever has."""
        self.is_interrupted = True

    def _poll(self):
        self.lump = []
        message = self.consumer.poll(0.05)
        while message is not None and len(self.lump) < self.order.lump_records:
            if message.error() is None:
                self.lump.append(message)
            elif message.error().fatal():
                raise KafkaException(message.error())
            if len(self.lump) < self.order.lump_records:
                message = self.consumer.poll(0)
        if self.is_interrupted:
            self.is_interrupted = False
            self._rewind()

    def _transform(self):
        self.producer.begin_transaction()
        try:
            for message in self.lump:
                partition, offset = message.partition(), message.offset()
                value = transformed(partition, offset, message.value())
                self.producer.produce(self.order.output, value, message.key(), partition=partition)
            ends = {message.partition(): message.offset() + 1 for message in self.lump}
            positions = [TopicPartition(self.order.input, *place) for place in ends.items()]
            group = self.consumer.consumer_group_metadata()
            retried(lambda wait_s: self.producer.send_offsets_to_transaction(positions, group, wait_s))
            if self.order.is_to_abort():
                self._abort("on purpose")
                return
            retried(self.producer.commit_transaction)
            tell("committed", len(self.lump))
        except KafkaException as exc:
            if not exc.args[0].txn_requires_abort():
                raise
            self._abort(exc)

    def _abort(self, why):
        retried(self.producer.abort_transaction)
        tell("aborted", len(self.lump), why)
        self._rewind()

    def _rewind(self):
        self.lump = []
        owned = self.consumer.assignment()
        for place in retried(lambda wait_s: self.consumer.committed(owned, wait_s)) if owned else ():
            if place.error is not None:
                raise KafkaException(place.error)
            offset = place.offset if place.offset >= 0 else OFFSET_BEGINNING
            self.consumer.seek(TopicPartition(place.topic, place.partition, offset))


def retried(call):
    while True:
        try:
            return call(WAIT_S)
        except KafkaException as exc:
            if not exc.args[0].retriable():
                raise


def is_worth_another(error):
    return isinstance(error, KafkaException)


if __name__ == "__main__":
    run_until_told(Order(), lambda order: Transformer(order).run(), is_worth_another)
