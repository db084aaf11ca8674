import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.NoOffsetForPartitionException;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.record.TimestampType;

/** Producing and consuming by programs. Each scenario throws if its expectation fails. */
final class DataScenarios {
    private final Cluster cluster;

    DataScenarios(Cluster cluster) {
        this.cluster = cluster;
    }

    /** By name. */
    Map<String, Scenario> all() {
        Map<String, Scenario> all = new LinkedHashMap<>();
        all.put("idempotent-producer", this::idempotentProducer);
        all.put("acks", this::everyKindOfAcks);
        all.put("too-large", this::recordTooLarge);
        all.put("auto-create", this::autoCreation);
        all.put("list-offsets", this::listOffsets);
        all.put("offset-policies", this::offsetPolicies);
        all.put("log-append-time", this::logAppendTime);
        all.put("small-fetches", this::smallFetches);
        all.put("fetch-session", this::fetchSession);
        all.put("read-committed", this::readCommitted);
        all.put("consumer-metadata", this::consumerMetadata);
        return all;
    }

    private void idempotentProducer() throws Exception {
        String topic = cluster.create("java-idempotent", 3, Map.of());
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<String, String> producer = cluster.producer(Map.of("batch.size", "500", "linger.ms", "5"))) {
            for (int i = 0; i < 3000; i++) {
                sent.add(producer.send(new ProducerRecord<>(topic, i % 3, "k" + i, "v" + i)));
            }
            producer.flush();
        }
        for (int i = 0; i < 3000; i++) {
            Cluster.equal(i / 3L, sent.get(i).get().offset(), "offset of record " + i);
        }
        List<ConsumerRecord<String, String>> records = cluster.read(topic, 1, 0, 1000, Map.of());
        for (int i = 0; i < 1000; i++) {
            Cluster.equal("v" + (3 * i + 1), records.get(i).value(), "value at " + i);
        }
    }

    private void everyKindOfAcks() throws Exception {
        for (String acks : List.of("0", "1", "all")) {
            String topic = cluster.create("java-acks-" + acks, 1, Map.of());
            try (KafkaProducer<String, String> producer =
                    cluster.producer(Map.of("acks", acks, "enable.idempotence", "false"))) {
                RecordMetadata metadata = null;
                for (int i = 0; i < 10; i++) {
                    metadata = producer.send(new ProducerRecord<>(topic, "v" + i)).get();
                }
                Cluster.equal(acks.equals("0") ? -1L : 9L, metadata.offset(), "offset with acks=" + acks);
            }
            Cluster.equal("v9", cluster.read(topic, 0, 0, 10, Map.of()).get(9).value(), "last value with acks=" + acks);
        }
    }

    private void recordTooLarge() throws Exception {
        String topic = cluster.create("java-too-large", 1, Map.of("max.message.bytes", "2000"));
        try (KafkaProducer<String, String> producer = cluster.producer(Map.of())) {
            Cluster.fails(RecordTooLargeException.class,
                    () -> producer.send(new ProducerRecord<>(topic, "x".repeat(5000))).get());
            Cluster.equal(0L, producer.send(new ProducerRecord<>(topic, "small")).get().offset(), "the next one is taken");
        }
    }

    private void autoCreation() throws Exception {
        String topic = cluster.name("java-auto");
        try (KafkaProducer<String, String> producer = cluster.producer(Map.of())) {
            Cluster.equal(0L, producer.send(new ProducerRecord<>(topic, "first")).get().offset(), "offset");
            Cluster.fails(InvalidTopicException.class, () -> producer.send(new ProducerRecord<>("not a name", "x")).get());
        }
        Cluster.equal("first", cluster.read(topic, 0, 0, 1, Map.of()).get(0).value(), "value");
    }

    private void listOffsets() throws Exception {
        String topic = cluster.create("java-offsets", 1, Map.of());
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> producer = cluster.producer(Map.of())) {
            for (long timestamp : new long[] {1000, 5000, 3000}) {
                producer.send(new ProducerRecord<>(topic, 0, timestamp, null, "at " + timestamp)).get();
            }
        }
        Cluster.equal("0@-1", cluster.offset(partition, OffsetSpec.earliest()), "earliest");
        Cluster.equal("3@-1", cluster.offset(partition, OffsetSpec.latest()), "latest");
        Cluster.equal("1@5000", cluster.offset(partition, OffsetSpec.maxTimestamp()), "max timestamp");
        Cluster.equal("0@1000", cluster.offset(partition, OffsetSpec.forTimestamp(0)), "for time 0");
        Cluster.equal("1@5000", cluster.offset(partition, OffsetSpec.forTimestamp(1001)), "for time 1001");
        Cluster.equal("-1@-1", cluster.offset(partition, OffsetSpec.forTimestamp(5001)), "for a time to come");
        Cluster.equal("0@-1", cluster.offset(partition, OffsetSpec.earliestLocal()), "earliest local");
        Cluster.equal("-1@-1", cluster.offset(partition, OffsetSpec.latestTiered()), "latest tiered");
        Cluster.equal(2L, cluster.admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(2)))
                .lowWatermarks().get(partition).get().lowWatermark(), "low watermark");
        Cluster.equal("2@-1", cluster.offset(partition, OffsetSpec.earliest()), "earliest after deletion");
        Cluster.equal("2@3000", cluster.offset(partition, OffsetSpec.forTimestamp(0)), "for time 0 after deletion");
        Cluster.equal(3L, cluster.admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(-1)))
                .lowWatermarks().get(partition).get().lowWatermark(), "low watermark at the end");
    }

    private void offsetPolicies() throws Exception {
        String topic = cluster.create("java-policies", 1, Map.of());
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> producer = cluster.producer(Map.of())) {
            for (int i = 0; i < 5; i++) {
                producer.send(new ProducerRecord<>(topic, "v" + i)).get();
            }
        }
        cluster.admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(3))).all().get();
        Cluster.equal("v3", cluster.read(topic, 0, 0, 1, Map.of("auto.offset.reset", "earliest")).get(0).value(), "reset to earliest");
        try (KafkaConsumer<String, String> consumer = cluster.consumer(Map.of("auto.offset.reset", "none"))) {
            consumer.assign(List.of(partition));
            Cluster.fails(NoOffsetForPartitionException.class, () -> Cluster.poll(consumer, 1));
            consumer.seek(partition, 1000);
            Cluster.fails(OffsetOutOfRangeException.class, () -> Cluster.poll(consumer, 1));
        }
    }

    private void logAppendTime() throws Exception {
        String topic = cluster.create("java-append-time", 1, Map.of("message.timestamp.type", "LogAppendTime"));
        long before = System.currentTimeMillis();
        long given;
        try (KafkaProducer<String, String> producer = cluster.producer(Map.of("compression.type", "gzip"))) {
            given = producer.send(new ProducerRecord<>(topic, 0, 1000L, "k", "v")).get().timestamp();
        }
        ConsumerRecord<String, String> record = cluster.read(topic, 0, 0, 1, Map.of()).get(0);
        Cluster.equal(TimestampType.LOG_APPEND_TIME, record.timestampType(), "type");
        Cluster.equal(given, record.timestamp(), "time told to the producer and to the consumer");
        Cluster.equal(true, given >= before - 1000 && given <= System.currentTimeMillis() + 1000, "a time of now");
    }

    /** A batch larger than the fetch size is returned all the same, or a consumer would be stuck. */
    private void smallFetches() throws Exception {
        String topic = cluster.create("java-small-fetches", 1, Map.of());
        try (KafkaProducer<String, String> producer = cluster.producer(Map.of("linger.ms", "20"))) {
            for (int i = 0; i < 300; i++) {
                producer.send(new ProducerRecord<>(topic, "k", "x".repeat(1000)));
            }
        }
        Map<String, String> tiny = Map.of("max.partition.fetch.bytes", "1", "fetch.max.bytes", "1");
        Cluster.equal(300, cluster.read(topic, 0, 0, 300, tiny).size(), "records");
        Map<String, String> patient = Map.of("fetch.min.bytes", "10000000", "fetch.max.wait.ms", "50");
        Cluster.equal(300, cluster.read(topic, 0, 0, 300, patient).size(), "records when less than fetch.min.bytes is there");
    }

    /** Partitions are added, removed and idle within one incremental fetch session. */
    private void fetchSession() throws Exception {
        String topic = cluster.create("java-session", 20, Map.of());
        List<TopicPartition> all =
                IntStream.range(0, 20).mapToObj(i -> new TopicPartition(topic, i)).collect(Collectors.toList());
        try (KafkaProducer<String, String> producer = cluster.producer(Map.of());
                KafkaConsumer<String, String> consumer = cluster.consumer(Map.of("fetch.max.wait.ms", "50"))) {
            consumer.assign(all);
            consumer.seekToBeginning(all);
            for (int round = 0; round < 5; round++) {
                Set<String> wanted = new HashSet<>();
                for (int i = round; i < 20; i += 3) {
                    producer.send(new ProducerRecord<>(topic, i, "k", round + ":" + i)).get();
                    wanted.add(round + ":" + i);
                }
                Cluster.equal(wanted, Cluster.values(Cluster.poll(consumer, wanted.size())), "round " + round);
            }
            consumer.pause(all.subList(0, 10));
            producer.send(new ProducerRecord<>(topic, 3, "k", "paused")).get();
            producer.send(new ProducerRecord<>(topic, 13, "k", "running")).get();
            Cluster.equal(Set.of("running"), Cluster.values(Cluster.poll(consumer, 1)), "while some are paused");
            consumer.resume(all.subList(0, 10));
            Cluster.equal(Set.of("paused"), Cluster.values(Cluster.poll(consumer, 1)), "after they were resumed");
            consumer.assign(all.subList(5, 8));
            consumer.seekToEnd(consumer.assignment());
            consumer.assignment().forEach(consumer::position);
            producer.send(new ProducerRecord<>(topic, 4, "k", "not assigned")).get();
            producer.send(new ProducerRecord<>(topic, 6, "k", "assigned")).get();
            Cluster.equal(Set.of("assigned"), Cluster.values(Cluster.poll(consumer, 1)), "with fewer partitions");
        }
    }

    private void readCommitted() throws Exception {
        String topic = cluster.create("java-committed", 1, Map.of());
        try (KafkaProducer<String, String> producer = cluster.producer(Map.of())) {
            producer.send(new ProducerRecord<>(topic, "v")).get();
        }
        Cluster.equal("v", cluster.read(topic, 0, 0, 1, Map.of("isolation.level", "read_committed")).get(0).value(), "value");
    }

    private void consumerMetadata() throws Exception {
        String topic = cluster.create("java-metadata", 2, Map.of());
        TopicPartition first = new TopicPartition(topic, 0);
        TopicPartition second = new TopicPartition(topic, 1);
        try (KafkaProducer<String, String> producer = cluster.producer(Map.of());
                KafkaConsumer<String, String> consumer = cluster.consumer(Map.of())) {
            producer.send(new ProducerRecord<>(topic, 0, 1000L, null, "a")).get();
            producer.send(new ProducerRecord<>(topic, 0, 2000L, null, "b")).get();
            Cluster.equal(2, consumer.partitionsFor(topic).size(), "partitions");
            Cluster.equal(true, consumer.listTopics().containsKey(topic), "listed");
            List<TopicPartition> both = List.of(first, second);
            Cluster.equal(Map.of(first, 0L, second, 0L), consumer.beginningOffsets(both), "beginnings");
            Cluster.equal(Map.of(first, 2L, second, 0L), consumer.endOffsets(both), "ends");
            Map<TopicPartition, ?> byTime = consumer.offsetsForTimes(Map.of(first, 1500L, second, 1500L));
            Cluster.equal(true, byTime.get(first).toString().contains("offset=1"), "offset for a time: " + byTime);
            Cluster.equal(null, byTime.get(second), "offset for a time in an empty partition");
            consumer.assign(both);
            consumer.seek(first, 1);
            Cluster.equal("b", Cluster.poll(consumer, 1).get(0).value(), "value");
            Cluster.equal(2L, consumer.position(first), "position");
        }
    }
}
