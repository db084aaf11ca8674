import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Consume, transform, produce with the Java client of 2.0 and later, with the order and events of
 * compat.transactions.transformers.
 */
public final class Transformer {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static volatile boolean isEnding = false;

    private final JsonNode order;
    private final int abortOneIn;
    private int turn = 0;

    private Transformer(JsonNode order) {
        this.order = order;
        this.abortOneIn = order.path("abort_one_in").asInt();
    }

    public static void main(String[] args) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Transformer transformer = new Transformer(JSON.readTree(input.readLine()));
        Thread waiting = new Thread(() -> {
            try {
                while (input.readLine() != null) {
                    // nothing follows the order
                }
            } catch (java.io.IOException gone) {
                // the same as the end of stdin
            }
            isEnding = true;
        });
        waiting.setDaemon(true);
        waiting.start();
        while (!isEnding) {
            try {
                transformer.run();
            } catch (KafkaException failure) {
                tell("replaced", 0, failure.toString());
            } catch (Throwable failure) {
                StringWriter trace = new StringWriter();
                failure.printStackTrace(new PrintWriter(trace));
                tell("failed", 0, trace.toString());
                return;
            }
        }
        tell("left", 0, "");
    }

    /** Until stdin ends, or an error that needs a new producer. */
    private void run() throws Exception {
        Map<String, Object> producing = settings("producer");
        producing.put("transactional.id", order.path("transactional_id").asText());
        Map<String, Object> consuming = settings("consumer");
        consuming.put("group.id", order.path("group").asText());
        consuming.put("auto.offset.reset", "earliest");
        consuming.put("enable.auto.commit", "false");
        consuming.put("isolation.level", "read_committed");
        consuming.put("max.poll.records", order.path("batch_records").asText());
        KafkaProducer<String, String> producer =
                new KafkaProducer<>(producing, new StringSerializer(), new StringSerializer());
        KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(consuming, new StringDeserializer(), new StringDeserializer());
        try {
            retried(producer::initTransactions);
            consumer.subscribe(Collections.singletonList(order.path("input").asText()));
            while (!isEnding) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(50));
                if (!records.isEmpty() && !transform(records, producer, consumer)) {
                    rewind(consumer);
                }
            }
        } finally {
            consumer.close();
            producer.close();
        }
    }

    private boolean transform(
            ConsumerRecords<String, String> records,
            KafkaProducer<String, String> producer,
            KafkaConsumer<String, String> consumer)
            throws Exception {
        producer.beginTransaction();
        try {
            Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
            for (ConsumerRecord<String, String> record : records) {
                String value = record.partition() + ":" + record.offset() + ":" + record.value();
                producer.send(new ProducerRecord<>(order.path("output").asText(), record.partition(), record.key(), value));
                ends.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
            }
            sendOffsets(producer, consumer, ends);
            turn++;
            if (turn % abortOneIn != 0) {
                retried(producer::commitTransaction);
                tell("committed", records.count(), "");
                return true;
            }
        } catch (KafkaException failure) {
            retried(producer::abortTransaction); // throws where nothing but a new producer helps
            tell("aborted", records.count(), failure.toString());
            return false;
        }
        retried(producer::abortTransaction);
        tell("aborted", records.count(), "on purpose");
        return false;
    }

    /** Since 2.5 with the group metadata; the older method with only the group id was removed in 4.0. */
    private void sendOffsets(
            KafkaProducer<String, String> producer,
            KafkaConsumer<String, String> consumer,
            Map<TopicPartition, OffsetAndMetadata> ends)
            throws Exception {
        Object group = order.path("group").asText();
        Class<?> kind = String.class;
        for (Method method : KafkaConsumer.class.getMethods()) {
            if (method.getName().equals("groupMetadata")) {
                group = method.invoke(consumer);
                kind = method.getReturnType();
            }
        }
        Method send = KafkaProducer.class.getMethod("sendOffsetsToTransaction", Map.class, kind);
        try {
            send.invoke(producer, ends, group);
        } catch (InvocationTargetException wrapped) {
            throw (Exception) wrapped.getCause();
        }
    }

    private static void rewind(KafkaConsumer<String, String> consumer) {
        for (TopicPartition partition : consumer.assignment()) {
            OffsetAndMetadata committed = committed(consumer, partition);
            try {
                consumer.seek(partition, committed == null ? 0 : committed.offset());
            } catch (IllegalStateException revoked) {
                // The background thread of the new consumer has lost the partition meanwhile: its next owner reads on.
                continue;
            }
        }
    }

    private static OffsetAndMetadata committed(KafkaConsumer<String, String> consumer, TopicPartition partition) {
        try {
            return consumer.committed(Collections.singleton(partition)).get(partition);
        } catch (NoSuchMethodError beforeTwoFour) {
            try {
                Method old = KafkaConsumer.class.getMethod("committed", TopicPartition.class);
                return (OffsetAndMetadata) old.invoke(consumer, partition);
            } catch (ReflectiveOperationException failure) {
                throw new IllegalStateException(failure);
            }
        }
    }

    /** A call that timed out must be retried: its outcome is unknown. */
    private static void retried(Runnable call) {
        while (true) {
            try {
                call.run();
                return;
            } catch (TimeoutException again) {
                // the broker is down
            }
        }
    }

    private Map<String, Object> settings(String kind) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", order.path("bootstrap").asText());
        settings.put("reconnect.backoff.max.ms", "200");
        order.path(kind).properties().forEach(entry -> settings.put(entry.getKey(), entry.getValue().asText()));
        return settings;
    }

    private static synchronized void tell(String kind, int count, String error) {
        ObjectNode event = JSON.createObjectNode();
        event.put("event", kind);
        event.put("count", count);
        event.put("error", error);
        System.out.println(event);
        System.out.flush();
    }
}
