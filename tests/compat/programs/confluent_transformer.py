"""Consume, transform, produce with confluent-kafka, with the order and events of compat.transactions.transformers."""

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from transformer_host import Order, report, run_until_stopped, transformed

WAIT_S = 60.0
# With its default, librdkafka 2.16 was seen to wait in `send_offsets_to_transaction` forever, whatever the timeout,
# after all brokers were down, also with Kafka. This avoids it. On a cluster it still happens: when the broker that it
# has cached as group coordinator leaves the metadata, librdkafka terminates that broker's handle and waits for it.
RECOVERY = {"metadata.recovery.strategy": "none"}


class Transformer:
    def __init__(self, order):
        self.order = order
        self.batch = []
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
                if self.batch:
                    self._transform()
        finally:
            self.consumer.close()

    def _interrupted(self, _consumer, _partitions):
        """Another member may own these partitions now; its owner polls the dropped records again."""
        self.is_interrupted = True

    def _poll(self):
        self.batch = []
        message = self.consumer.poll(0.05)
        while message is not None and len(self.batch) < self.order.batch_records:
            if message.error() is None:
                self.batch.append(message)
            elif message.error().fatal():
                raise KafkaException(message.error())
            if len(self.batch) < self.order.batch_records:
                message = self.consumer.poll(0)
        if self.is_interrupted:
            self.is_interrupted = False
            self._rewind()

    def _transform(self):
        self.producer.begin_transaction()
        try:
            for message in self.batch:
                partition, offset = message.partition(), message.offset()
                value = transformed(partition, offset, message.value())
                self.producer.produce(self.order.output, value, message.key(), partition=partition)
            ends = {message.partition(): message.offset() + 1 for message in self.batch}
            positions = [TopicPartition(self.order.input, *place) for place in ends.items()]
            group = self.consumer.consumer_group_metadata()
            retried(lambda wait_s: self.producer.send_offsets_to_transaction(positions, group, wait_s))
            if self.order.is_to_abort():
                self._abort("on purpose")
                return
            retried(self.producer.commit_transaction)
            report("committed", len(self.batch))
        except KafkaException as exc:
            if not exc.args[0].txn_requires_abort():
                raise
            self._abort(exc)

    def _abort(self, why):
        retried(self.producer.abort_transaction)
        report("aborted", len(self.batch), why)
        self._rewind()

    def _rewind(self):
        """Go back to the committed offsets of the partitions whose polled records are dropped.

        Other partitions keep their position. Never seek to OFFSET_BEGINNING here: if a lookup of that offset is in
        flight, librdkafka 2.16 repeats it half a second later and goes back to it, whatever was read meanwhile.
        """
        first_offsets = {}
        for message in self.batch:
            first_offsets.setdefault(message.partition(), message.offset())
        self.batch = []
        dropped = [place for place in self.consumer.assignment() if place.partition in first_offsets]
        for place in retried(lambda wait_s: self.consumer.committed(dropped, wait_s)) if dropped else ():
            if place.error is not None:
                raise KafkaException(place.error)
            offset = place.offset if place.offset >= 0 else first_offsets[place.partition]
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
    run_until_stopped(Order(), lambda order: Transformer(order).run(), is_worth_another)
