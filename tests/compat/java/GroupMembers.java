import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Group members of the Java client, with the commands and events of compat.groups.members. */
public final class GroupMembers {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream EVENTS = System.out;

    public static void main(String[] args) throws Exception {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, Member> members = new HashMap<>();
        List<Member> all = new ArrayList<>();
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            JsonNode order = JSON.readTree(line);
            String name = order.path("member").asText();
            if (order.path("do").asText().equals("join")) {
                Member member = new Member(name, order);
                members.put(name, member);
                all.add(member);
                member.start();
            } else {
                members.get(name).isLeaving = true;
            }
        }
        for (Member member : all) {
            member.isLeaving = true;
        }
        for (Member member : all) {
            member.join();
        }
    }

    private static final class Member extends Thread implements ConsumerRebalanceListener {
        volatile boolean isLeaving = false;
        private final String name;
        private final JsonNode order;
        private KafkaConsumer<String, String> consumer;

        Member(String name, JsonNode order) {
            super(name);
            this.name = name;
            this.order = order;
        }

        @Override
        public void run() {
            try {
                consume();
                tell("left", null);
            } catch (Throwable failure) {
                StringWriter trace = new StringWriter();
                failure.printStackTrace(new PrintWriter(trace));
                ObjectNode event = event("failed");
                event.put("error", trace.toString());
                write(event);
            }
        }

        private void consume() {
            Map<String, Object> settings = new HashMap<>();
            settings.put("bootstrap.servers", order.path("bootstrap").asText());
            settings.put("group.id", order.path("group").asText());
            settings.put("auto.offset.reset", "earliest");
            settings.put("enable.auto.commit", "false");
            order.path("settings").properties().forEach(entry -> settings.put(entry.getKey(), entry.getValue().asText()));
            List<String> topics = new ArrayList<>();
            order.path("topics").forEach(topic -> topics.add(topic.asText()));
            consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
            try (KafkaConsumer<String, String> closing = consumer) {
                consumer.subscribe(topics, this);
                while (!isLeaving) {
                    ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(50));
                    if (!records.isEmpty()) {
                        tellRecords(records);
                        consumer.commitAsync();
                    }
                }
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            tell("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            if (!partitions.isEmpty()) {
                try {
                    consumer.commitSync();
                } catch (CommitFailedException movedOn) {
                    // It is read again; the test decides whether that is allowed.
                }
                tell("revoked", partitions);
            }
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            tell("lost", partitions);
        }

        private void tellRecords(ConsumerRecords<String, String> records) {
            ObjectNode event = event("read");
            ArrayNode list = event.putArray("records");
            for (ConsumerRecord<String, String> record : records) {
                list.addArray().add(record.partition()).add(record.offset()).add(Long.parseLong(record.value()));
            }
            write(event);
        }

        private void tell(String kind, Collection<TopicPartition> partitions) {
            ObjectNode event = event(kind);
            if (partitions != null) {
                ArrayNode list = event.putArray("partitions");
                partitions.stream().map(TopicPartition::partition).sorted().forEach(list::add);
            }
            write(event);
        }

        private ObjectNode event(String kind) {
            ObjectNode event = JSON.createObjectNode();
            event.put("member", name);
            event.put("at", ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now()));
            event.put("event", kind);
            return event;
        }

        private static void write(ObjectNode event) {
            synchronized (EVENTS) {
                EVENTS.println(event);
                EVENTS.flush();
            }
        }
    }
}
