import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads a partition from its beginning, as ConsumerPerformance does but without a group; prints MB/s of keys and values. */
public class AssignedConsumer {
    public static void main(String[] args) {
        long wanted = Long.parseLong(args[2]);
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", args[0],
            "key.deserializer", ByteArrayDeserializer.class,
            "value.deserializer", ByteArrayDeserializer.class,
            "max.partition.fetch.bytes", 1 << 20,
            "max.poll.records", 50_000,
            "enable.auto.commit", false);
        try (var consumer = new KafkaConsumer<byte[], byte[]>(settings)) {
            var partition = new TopicPartition(args[1], 0);
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            consumer.poll(Duration.ofSeconds(10));  // connections, metadata and the first classes do not count
            consumer.seek(partition, 0);
            long count = 0;
            long bytes = 0;
            long began = System.nanoTime();
            while (count < wanted) {
                for (var record : consumer.poll(Duration.ofSeconds(10))) {
                    count++;
                    bytes += record.serializedValueSize() + Math.max(0, record.serializedKeySize());
                }
            }
            double seconds = (System.nanoTime() - began) / 1e9;
            System.out.printf("%.3f MB/s %d records%n", bytes / 1e6 / seconds, count);
        }
    }
}
