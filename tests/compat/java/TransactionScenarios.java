import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidRegularExpression;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TransactionalIdNotFoundException;

/** Transactions in programs, beyond the usual loop. Each scenario throws if its expectation fails. */
@SuppressWarnings({"deprecation", "removal"}) // members of a group that are made up
final class TransactionScenarios {
    private static final Map<String, String> COMMITTED = Map.of("isolation.level", "read_committed");
    private static final Map<String, String> UNCOMMITTED = Map.of("isolation.level", "read_uncommitted");
    private static final int OPEN_SECONDS = 60;

    private final Cluster cluster;

    TransactionScenarios(Cluster cluster) {
        this.cluster = cluster;
    }

    /** By name. */
    Map<String, Scenario> all() {
        Map<String, Scenario> all = new LinkedHashMap<>();
        all.put("a-second-producer-fences-the-first", this::fenced);
        all.put("empty-transactions", this::empty);
        all.put("ends-of-readers", this::ends);
        all.put("fenced-by-an-operator", this::fencedByOperator);
        all.put("listed-and-described", this::listed);
        all.put("offsets-of-an-unknown-member", this::unknownMember);
        all.put("offsets-pending", this::pendingOffsets);
        all.put("producers-described", this::producersDescribed);
        all.put("rolled-back-is-not-read", this::rolledBack);
        all.put("rolled-back-when-time-is-up", this::timedOut);
        all.put("terminated-by-an-operator", this::terminated);
        all.put("timeout-too-long", this::timeoutTooLong);
        all.put("too-large-a-record", this::tooLarge);
        all.put("topics-and-partitions-at-once", this::manyPartitions);
        all.put("unfinished-when-the-producer-comes-back", this::unfinished);
        return all;
    }

    private KafkaProducer<String, String> transactor(String id, Map<String, String> more) {
        Map<String, String> settings = new HashMap<>(more);
        settings.put("transactional.id", id);
        settings.putIfAbsent("transaction.timeout.ms", String.valueOf(OPEN_SECONDS * 1000));
        KafkaProducer<String, String> producer = cluster.producer(settings);
        producer.initTransactions();
        return producer;
    }

    private static void write(KafkaProducer<String, String> producer, String topic, int partition, String value)
            throws Exception {
        producer.send(new ProducerRecord<>(topic, partition, null, value)).get();
    }

    private List<String> read(String topic, int partition, int count, Map<String, String> settings) {
        return cluster.read(topic, partition, 0, count, settings).stream()
                .map(record -> record.value())
                .collect(Collectors.toList());
    }

    private long end(String topic, int partition, Map<String, String> settings) {
        TopicPartition place = new TopicPartition(topic, partition);
        try (KafkaConsumer<String, String> consumer = cluster.consumer(settings)) {
            return consumer.endOffsets(List.of(place)).get(place);
        }
    }

    private TransactionDescription describe(String id) throws Exception {
        return cluster.admin.describeTransactions(List.of(id)).description(id).get();
    }

    private void eventuallyIs(String id, TransactionState state) throws Exception {
        Cluster.eventually(() -> describe(id).state() == state);
    }

    private void rolledBack() throws Exception {
        String topic = cluster.create("java-rolled-back", 1, Map.of());
        try (KafkaProducer<String, String> producer = transactor(cluster.name("java-transactor"), Map.of())) {
            for (int number = 0; number < 10; number++) {
                producer.beginTransaction();
                write(producer, topic, 0, "value-" + number);
                write(producer, topic, 0, "more-" + number);
                if (number % 3 == 1) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
        List<String> kept = IntStream.range(0, 10)
                .filter(number -> number % 3 != 1)
                .boxed()
                .flatMap(number -> List.of("value-" + number, "more-" + number).stream())
                .collect(Collectors.toList());
        Cluster.equal(kept, read(topic, 0, kept.size(), COMMITTED), "committed");
        Cluster.equal(20, read(topic, 0, 20, UNCOMMITTED).size(), "all");
    }

    private void ends() throws Exception {
        String topic = cluster.create("java-ends", 1, Map.of());
        try (KafkaProducer<String, String> producer = transactor(cluster.name("java-transactor"), Map.of());
                KafkaProducer<String, String> other = cluster.producer(Map.of())) {
            write(other, topic, 0, "before");
            producer.beginTransaction();
            write(producer, topic, 0, "open");
            write(other, topic, 0, "after");
            Cluster.equal(1L, end(topic, 0, COMMITTED), "end of committed records");
            Cluster.equal(3L, end(topic, 0, UNCOMMITTED), "end of all records");
            Cluster.equal(List.of("before"), read(topic, 0, 1, COMMITTED), "committed before");
            producer.commitTransaction();
            Cluster.eventually(() -> end(topic, 0, COMMITTED) == 4L);
            Cluster.equal(List.of("before", "open", "after"), read(topic, 0, 3, COMMITTED), "committed in the end");
        }
    }

    private void fenced() throws Exception {
        String topic = cluster.create("java-txn-fenced", 1, Map.of());
        String id = cluster.name("java-transactor");
        try (KafkaProducer<String, String> first = transactor(id, Map.of())) {
            first.beginTransaction();
            write(first, topic, 0, "of the first");
            try (KafkaProducer<String, String> second = transactor(id, Map.of())) {
                second.beginTransaction();
                write(second, topic, 0, "of the second");
                Cluster.fails(ProducerFencedException.class, () -> {
                    first.commitTransaction();
                    return null;
                });
                second.commitTransaction();
            }
        }
        Cluster.equal(List.of("of the second"), read(topic, 0, 1, COMMITTED), "committed");
    }

    private void unfinished() throws Exception {
        String topic = cluster.create("java-unfinished", 1, Map.of());
        String id = cluster.name("java-transactor");
        KafkaProducer<String, String> first = transactor(id, Map.of());
        first.beginTransaction();
        write(first, topic, 0, "of the first");
        first.close(Duration.ZERO);
        try (KafkaProducer<String, String> second = transactor(id, Map.of())) {
            Cluster.equal(2L, end(topic, 0, COMMITTED), "end of committed records");
            Cluster.equal(TransactionState.EMPTY, describe(id).state(), "state");
            second.beginTransaction();
            write(second, topic, 0, "of the second");
            second.commitTransaction();
        }
        Cluster.equal(List.of("of the second"), read(topic, 0, 1, COMMITTED), "committed");
    }

    private void fencedByOperator() throws Exception {
        String topic = cluster.create("java-operator", 1, Map.of());
        String id = cluster.name("java-transactor");
        try (KafkaProducer<String, String> producer = transactor(id, Map.of())) {
            producer.beginTransaction();
            write(producer, topic, 0, "never seen");
            long before = describe(id).producerEpoch();
            int epoch = cluster.admin.fenceProducers(List.of(id)).epochId(id).get();
            Cluster.equal(true, epoch > before, "a higher epoch");
            Cluster.fails(ProducerFencedException.class, () -> {
                producer.commitTransaction();
                return null;
            });
        }
        Cluster.equal(2L, end(topic, 0, COMMITTED), "end of committed records");
    }

    private void terminated() throws Exception {
        String topic = cluster.create("java-terminated", 1, Map.of());
        String id = cluster.name("java-transactor");
        try (KafkaProducer<String, String> producer = transactor(id, Map.of())) {
            producer.beginTransaction();
            write(producer, topic, 0, "never seen");
            cluster.admin.forceTerminateTransaction(id).result().get();
            Cluster.equal(TransactionState.EMPTY, describe(id).state(), "state");
            Cluster.fails(ProducerFencedException.class, () -> {
                producer.commitTransaction();
                return null;
            });
        }
        Cluster.equal(2L, end(topic, 0, COMMITTED), "end of committed records");
    }

    private void timedOut() throws Exception {
        String topic = cluster.create("java-timed-out", 1, Map.of());
        String id = cluster.name("java-transactor");
        try (KafkaProducer<String, String> producer = transactor(id, Map.of("transaction.timeout.ms", "1000"))) {
            producer.beginTransaction();
            write(producer, topic, 0, "too late");
            Cluster.eventually(() -> end(topic, 0, COMMITTED) == 2L);
            eventuallyIs(id, TransactionState.COMPLETE_ABORT);
            try {
                producer.commitTransaction();
                throw new AssertionError("it was committed, though it was rolled back");
            } catch (KafkaException fencedOrOfAnOldEpoch) {
                // which of them is the client's choice
            }
        }
        try (KafkaProducer<String, String> next = transactor(id, Map.of())) {
            next.beginTransaction();
            write(next, topic, 0, "in time");
            next.commitTransaction();
        }
        Cluster.equal(List.of("in time"), read(topic, 0, 1, COMMITTED), "committed");
    }

    private void timeoutTooLong() {
        try (KafkaProducer<String, String> producer = transactor(
                cluster.name("java-transactor"), Map.of("transaction.timeout.ms", "900001"))) {
            throw new AssertionError("it was let in");
        } catch (KafkaException refused) {
            String words = String.valueOf(refused.getMessage());
            Cluster.equal(true, words.contains("The transaction timeout is larger than the maximum"), words);
        }
    }

    private void empty() throws Exception {
        String id = cluster.name("java-transactor");
        try (KafkaProducer<String, String> producer = transactor(id, Map.of())) {
            producer.beginTransaction();
            producer.commitTransaction();
            producer.beginTransaction();
            producer.abortTransaction();
            Cluster.equal(TransactionState.EMPTY, describe(id).state(), "state");
        }
    }

    private void tooLarge() throws Exception {
        String topic = cluster.create("java-too-large", 1, Map.of("max.message.bytes", "1000"));
        try (KafkaProducer<String, String> producer = transactor(cluster.name("java-transactor"), Map.of())) {
            producer.beginTransaction();
            write(producer, topic, 0, "small");
            Cluster.fails(RecordTooLargeException.class, () -> {
                write(producer, topic, 0, "x".repeat(2000));
                return null;
            });
            producer.abortTransaction();
            producer.beginTransaction();
            write(producer, topic, 0, "small again");
            producer.commitTransaction();
        }
        Cluster.equal(List.of("small again"), read(topic, 0, 1, COMMITTED), "committed");
    }

    private void manyPartitions() throws Exception {
        List<String> topics = new ArrayList<>();
        for (int number = 0; number < 3; number++) {
            topics.add(cluster.create("java-many", 20, Map.of()));
        }
        String id = cluster.name("java-transactor");
        try (KafkaProducer<String, String> producer = transactor(id, Map.of())) {
            producer.beginTransaction();
            for (String topic : topics) {
                for (int partition = 0; partition < 20; partition++) {
                    producer.send(new ProducerRecord<>(topic, partition, null, topic + partition));
                }
            }
            producer.flush();
            Cluster.equal(60, describe(id).topicPartitions().size(), "partitions");
            producer.commitTransaction();
        }
        for (String topic : topics) {
            for (int partition = 0; partition < 20; partition += 7) {
                Cluster.equal(List.of(topic + partition), read(topic, partition, 1, COMMITTED), "committed");
            }
        }
    }

    private void listed() throws Exception {
        String topic = cluster.create("java-listed", 1, Map.of());
        String id = cluster.name("java-transactor-listed");
        try (KafkaProducer<String, String> producer = transactor(id, Map.of())) {
            producer.beginTransaction();
            write(producer, topic, 0, "value");
            TransactionDescription described = describe(id);
            Cluster.equal(TransactionState.ONGOING, described.state(), "state");
            Cluster.equal(Set.of(new TopicPartition(topic, 0)), described.topicPartitions(), "partitions");
            Cluster.equal((long) OPEN_SECONDS * 1000, described.transactionTimeoutMs(), "timeout");
            Cluster.equal(true, described.transactionStartTimeMs().isPresent(), "a time when it began");

            TransactionListing listing = new TransactionListing(id, described.producerId(), TransactionState.ONGOING);
            ListTransactionsOptions none = new ListTransactionsOptions();
            Cluster.equal(true, list(none).contains(listing), "among all");
            Cluster.equal(List.of(listing), list(none.filterProducerIds(Set.of(described.producerId()))), "by id");
            ListTransactionsOptions complete =
                    new ListTransactionsOptions().filterStates(Set.of(TransactionState.COMPLETE_COMMIT));
            Cluster.equal(false, list(complete).contains(listing), "by another state");
            ListTransactionsOptions named = new ListTransactionsOptions().filterOnTransactionalIdPattern(".*-listed-.*");
            Cluster.equal(List.of(listing), list(named), "by pattern");
            ListTransactionsOptions old = new ListTransactionsOptions().filterOnDuration(3_600_000);
            Cluster.equal(false, list(old).contains(listing), "by duration");
            Cluster.fails(InvalidRegularExpression.class, () -> cluster.admin
                    .listTransactions(new ListTransactionsOptions().filterOnTransactionalIdPattern("["))
                    .all()
                    .get());
            producer.commitTransaction();
            eventuallyIs(id, TransactionState.COMPLETE_COMMIT);
            Cluster.equal(Set.of(), describe(id).topicPartitions(), "partitions in the end");
        }
        Cluster.fails(TransactionalIdNotFoundException.class, () -> describe("nobody-has-this-id"));
    }

    private List<TransactionListing> list(ListTransactionsOptions options) throws Exception {
        return List.copyOf(cluster.admin.listTransactions(options).all().get());
    }

    private void producersDescribed() throws Exception {
        String topic = cluster.create("java-producers", 1, Map.of());
        String id = cluster.name("java-transactor");
        try (KafkaProducer<String, String> producer = transactor(id, Map.of())) {
            producer.beginTransaction();
            write(producer, topic, 0, "one");
            write(producer, topic, 0, "two");
            ProducerState state = producers(topic).get(0);
            Cluster.equal(describe(id).producerId(), state.producerId(), "producer");
            Cluster.equal(describe(id).producerEpoch(), state.producerEpoch(), "epoch");
            Cluster.equal(1, state.lastSequence(), "sequence");
            Cluster.equal(0L, state.currentTransactionStartOffset().getAsLong(), "where it began");
            producer.commitTransaction();
            Cluster.eventually(() -> producers(topic).get(0).currentTransactionStartOffset().isEmpty());
            Cluster.equal(0, producers(topic).get(0).coordinatorEpoch().getAsInt(), "epoch of the coordinator");
        }
    }

    private List<ProducerState> producers(String topic) throws Exception {
        TopicPartition place = new TopicPartition(topic, 0);
        return cluster.admin.describeProducers(List.of(place)).partitionResult(place).get().activeProducers();
    }

    private void unknownMember() throws Exception {
        String topic = cluster.create("java-txn-offsets", 1, Map.of());
        String group = cluster.name("java-txn-group");
        TopicPartition place = new TopicPartition(topic, 0);
        Map<TopicPartition, OffsetAndMetadata> offsets = Map.of(place, new OffsetAndMetadata(7));
        try (KafkaProducer<String, String> producer = transactor(cluster.name("java-transactor"), Map.of())) {
            ConsumerGroupMetadata stranger =
                    new ConsumerGroupMetadata(group, 5, "nobody", java.util.Optional.empty());
            producer.beginTransaction();
            Cluster.fails(CommitFailedException.class, () -> {
                producer.sendOffsetsToTransaction(offsets, stranger);
                producer.commitTransaction();
                return null;
            });
            producer.abortTransaction();
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(group));
            producer.abortTransaction();
            Cluster.equal(null, committed(group, place), "committed by one that was rolled back");
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(group));
            producer.commitTransaction();
        }
        Cluster.equal(7L, committed(group, place), "committed");
    }

    private void pendingOffsets() throws Exception {
        String topic = cluster.create("java-txn-pending", 1, Map.of());
        String group = cluster.name("java-txn-group");
        TopicPartition place = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> producer = transactor(cluster.name("java-transactor"), Map.of())) {
            ConsumerGroupMetadata members = new ConsumerGroupMetadata(group);
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(Map.of(place, new OffsetAndMetadata(1)), members);
            producer.commitTransaction();
            Cluster.equal(1L, committed(group, place), "committed first");
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(Map.of(place, new OffsetAndMetadata(2)), members);
            Cluster.fails(TimeoutException.class, () -> committed(group, place, Duration.ofMillis(500)));
            producer.commitTransaction();
        }
        Cluster.equal(2L, committed(group, place), "committed in the end");
    }

    private Long committed(String group, TopicPartition place) {
        return committed(group, place, Duration.ofMillis(Cluster.WAIT_MILLIS));
    }

    private Long committed(String group, TopicPartition place, Duration wait) {
        try (KafkaConsumer<String, String> consumer = cluster.consumer(Map.of("group.id", group))) {
            OffsetAndMetadata found = consumer.committed(Set.of(place), wait).get(place);
            return found == null ? null : found.offset();
        }
    }
}
