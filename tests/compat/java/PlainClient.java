import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes and reads records with the Kafka Java client on the class path, from 0.10.2 to the current version.
 *
 * <p>{@code produce BOOTSTRAP [key=value ...]}: stdin has lines {@code job TAB topic TAB codec}, each followed by its records.
 * {@code consume BOOTSTRAP [key=value ...]}: stdin has lines {@code topic TAB count}; stdout has {@code topic TAB record}.
 * A record is {@code offset TAB timestamp TAB key TAB value TAB headers}, bytes in base64 and null as a dash.
 */
public final class PlainClient {
    private static final long READ_MILLIS = 60_000;
    private static final boolean HAS_HEADERS = hasHeaders();

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[1]);
        for (int i = 2; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        if (args[0].equals("produce")) {
            produce(properties, input);
        } else {
            consume(properties, input);
        }
    }

    private static void produce(Properties properties, BufferedReader input) throws Exception {
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        properties.putIfAbsent("acks", "all");
        properties.putIfAbsent("linger.ms", "20");
        KafkaProducer<byte[], byte[]> producer = null;
        String topic = null;
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] parts = line.split("\t", -1);
            if (parts[0].equals("job")) {
                finish(producer, sent);
                topic = parts[1];
                properties.put("compression.type", parts[2]);
                producer = new KafkaProducer<>(properties);
            } else {
                Long timestamp = parts[1].equals("-") ? null : Long.valueOf(parts[1]);
                ProducerRecord<byte[], byte[]> record =
                        new ProducerRecord<>(topic, 0, timestamp, decode(parts[2]), decode(parts[3]));
                if (HAS_HEADERS) {
                    WithHeaders.add(record, parts[4]);
                }
                sent.add(producer.send(record));
            }
        }
        finish(producer, sent);
    }

    private static void finish(KafkaProducer<byte[], byte[]> producer, List<Future<RecordMetadata>> sent) throws Exception {
        if (producer == null) {
            return;
        }
        producer.flush();
        for (Future<RecordMetadata> future : sent) {
            future.get();
        }
        sent.clear();
        producer.close();
    }

    private static void consume(Properties properties, BufferedReader input) throws Exception {
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        Map<TopicPartition, Integer> missing = new LinkedHashMap<>();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] parts = line.split("\t");
            missing.put(new TopicPartition(parts[0], 0), Integer.valueOf(parts[1]));
        }
        PrintStream output = new PrintStream(System.out, false, "UTF-8");
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties);
        consumer.assign(new ArrayList<>(missing.keySet()));
        for (TopicPartition partition : missing.keySet()) {
            consumer.seek(partition, 0);
        }
        int left = missing.values().stream().mapToInt(Integer::intValue).sum();
        long deadline = System.currentTimeMillis() + READ_MILLIS;
        while (left > 0 && System.currentTimeMillis() < deadline) {
            for (ConsumerRecord<byte[], byte[]> record : poll(consumer)) {
                String headers = HAS_HEADERS ? WithHeaders.text(record) : "";
                output.println(String.join("\t", record.topic(), Long.toString(record.offset()),
                        Long.toString(record.timestamp()), encode(record.key()), encode(record.value()), headers));
                left--;
            }
        }
        output.flush();
        consumer.close();
    }

    /** The argument of poll was a number until 2.0 and is a Duration since; some versions have only one of them. */
    @SuppressWarnings("unchecked")
    private static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        try {
            Object wait = java.time.Duration.ofSeconds(1);
            return (ConsumerRecords<byte[], byte[]>)
                    KafkaConsumer.class.getMethod("poll", java.time.Duration.class).invoke(consumer, wait);
        } catch (NoSuchMethodException older) {
            return (ConsumerRecords<byte[], byte[]>)
                    KafkaConsumer.class.getMethod("poll", long.class).invoke(consumer, 1000L);
        }
    }

    private static boolean hasHeaders() {
        try {
            Class.forName("org.apache.kafka.common.header.Header");
            return true;
        } catch (ClassNotFoundException older) {
            return false;
        }
    }

    private static String encode(byte[] data) {
        return data == null ? "-" : Base64.getEncoder().encodeToString(data);
    }

    private static byte[] decode(String text) {
        return text.equals("-") ? null : Base64.getDecoder().decode(text);
    }

    /** Separate, so that a client without headers never loads their classes. */
    private static final class WithHeaders {
        static void add(ProducerRecord<byte[], byte[]> record, String text) {
            for (String pair : text.isEmpty() ? new String[0] : text.split(",")) {
                String[] parts = pair.split("=", 2);
                record.headers().add(new RecordHeader(parts[0], decode(parts[1])));
            }
        }

        static String text(ConsumerRecord<byte[], byte[]> record) {
            List<String> pairs = new ArrayList<>();
            for (Header header : record.headers()) {
                pairs.add(header.key() + "=" + encode(header.value()));
            }
            return String.join(",", pairs);
        }
    }
}
