import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Writes numbered records with acks=all and idempotence until stdin ends, as harness.load does.
 *
 * <p>{@code NumberedProducer BOOTSTRAP TOPIC KEYS BURST PAUSE_MS [key=value ...]}: stdout has a line
 * {@code written PARTITION OFFSET NUMBER} for each acknowledged record, {@code failed NUMBER ERROR} for each other one,
 * and {@code end} when all of them are answered.
 */
public final class NumberedProducer {
    private static volatile boolean isEnding = false;

    public static void main(String[] args) throws Exception {
        String topic = args[1];
        int keys = Integer.parseInt(args[2]);
        int burst = Integer.parseInt(args[3]);
        long pauseMillis = Long.parseLong(args[4]);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        properties.put("acks", "all");
        properties.put("enable.idempotence", "true");
        for (int i = 5; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        awaitEndOfInput();
        PrintStream output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            for (int number = 0; !isEnding; Thread.sleep(pauseMillis)) {
                for (int i = 0; i < burst; i++, number++) {
                    int sent = number;
                    ProducerRecord<String, String> record =
                            new ProducerRecord<>(topic, "key-" + number % keys, Integer.toString(number));
                    producer.send(record, (metadata, failure) -> output.println(failure == null
                            ? "written " + metadata.partition() + " " + metadata.offset() + " " + sent
                            : "failed " + sent + " " + failure));
                }
            }
        }
        output.println("end");
    }

    private static void awaitEndOfInput() {
        Thread waiting = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    // nothing is expected
                }
            } catch (java.io.IOException gone) {
                // the same as the end
            }
            isEnding = true;
        });
        waiting.setDaemon(true);
        waiting.start();
    }
}
