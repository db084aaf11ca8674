import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A cluster under test: its clients, names for topics, and assertions. */
final class Cluster {
    static final long WAIT_MILLIS = 30_000;

    final String bootstrap;
    final Admin admin;
    private int names = 0;

    Cluster(String bootstrap) {
        this.bootstrap = bootstrap;
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        this.admin = Admin.create(properties);
    }

    String name(String stem) {
        return stem + "-" + names++;
    }

    String create(String stem, int partitions, Map<String, String> configs) throws Exception {
        String topic = name(stem);
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(configs))).all().get();
        eventually(() -> admin.listTopics().names().get().contains(topic));
        return topic;
    }

    KafkaProducer<String, String> producer(Map<String, String> settings) {
        Map<String, Object> properties = new HashMap<>(settings);
        properties.put("bootstrap.servers", bootstrap);
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    KafkaConsumer<String, String> consumer(Map<String, String> settings) {
        Map<String, Object> properties = new HashMap<>(settings);
        properties.put("bootstrap.servers", bootstrap);
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    List<ConsumerRecord<String, String>> read(
            String topic, int number, long offset, int count, Map<String, String> settings) {
        TopicPartition partition = new TopicPartition(topic, number);
        try (KafkaConsumer<String, String> consumer = consumer(settings)) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, offset);
            return poll(consumer, count);
        }
    }

    static List<ConsumerRecord<String, String>> poll(KafkaConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        long deadline = System.currentTimeMillis() + WAIT_MILLIS;
        while (records.size() < count) {
            consumer.poll(Duration.ofMillis(200)).forEach(records::add);
            equal(true, System.currentTimeMillis() < deadline, "in time: " + records.size() + " of " + count);
        }
        return records;
    }

    static Set<String> values(List<ConsumerRecord<String, String>> records) {
        return records.stream().map(ConsumerRecord::value).collect(Collectors.toSet());
    }

    String offset(TopicPartition partition, OffsetSpec spec) throws Exception {
        ListOffsetsResultInfo info = admin.listOffsets(Map.of(partition, spec)).partitionResult(partition).get();
        return info.offset() + "@" + info.timestamp();
    }

    static void eventually(Callable<Boolean> isSo) throws Exception {
        long deadline = System.currentTimeMillis() + WAIT_MILLIS;
        while (true) {
            try {
                if (isSo.call()) {
                    return;
                }
            } catch (ExecutionException notYet) {
                if (System.currentTimeMillis() > deadline) {
                    throw notYet;
                }
            }
            equal(true, System.currentTimeMillis() < deadline, "in time");
            Thread.sleep(20);
        }
    }

    static void equal(Object expected, Object found, String what) {
        if (!java.util.Objects.equals(expected, found)) {
            throw new AssertionError(what + ": expected " + expected + ", found " + found);
        }
    }

    static void fails(Class<? extends Throwable> kind, Callable<?> action) {
        try {
            action.call();
        } catch (Throwable failure) {
            Throwable cause = failure instanceof ExecutionException ? failure.getCause() : failure;
            equal(kind, cause.getClass(), "kind of failure");
            return;
        }
        throw new AssertionError("expected " + kind.getSimpleName() + ", but it worked");
    }
}
