import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Assigns groups with Apache Kafka's own assignors.
 *
 * <p>A line of input is a group: the class of the assignor, topics with the racks of each partition, and members as they
 * joined. The line of output that answers it is what each member gets. Java runs this file as it is.
 */
public class AssignorOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode group = JSON.readTree(line);
            Class<?> kind = Class.forName("org.apache.kafka.clients.consumer." + group.get("assignor").asText());
            var assignor = (ConsumerPartitionAssignor) kind.getDeclaredConstructor().newInstance();
            var assigned = assignor.assign(cluster(group.get("topics")), members(group.get("members")));
            ObjectNode answer = JSON.createObjectNode();
            assigned.groupAssignment().forEach((member, share) -> {
                ArrayNode partitions = answer.putArray(member);
                share.partitions().forEach(each -> partitions.addArray().add(each.topic()).add(each.partition()));
            });
            System.out.println(answer);
        }
    }

    private static Cluster cluster(JsonNode topics) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            for (int index = 0; index < topic.getValue().size(); index++) {
                List<Node> replicas = new ArrayList<>();
                topic.getValue().get(index).forEach(rack -> replicas.add(nodes.computeIfAbsent(
                        rack.asText(), name -> new Node(nodes.size() + 1, "host", 9092, name))));
                if (replicas.isEmpty()) {
                    replicas.add(nodes.computeIfAbsent("", name -> new Node(0, "host", 9092)));
                }
                Node[] all = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), index, all[0], all, all));
            }
        });
        return new Cluster("id", nodes.values(), partitions, Set.of(), Set.of());
    }

    private static GroupSubscription members(JsonNode members) {
        Map<String, Subscription> subscriptions = new LinkedHashMap<>();
        members.fields().forEachRemaining(entry -> {
            JsonNode member = entry.getValue();
            List<String> topics = new ArrayList<>();
            member.get("topics").forEach(topic -> topics.add(topic.asText()));
            List<TopicPartition> owned = new ArrayList<>();
            member.get("owned").forEach(
                    each -> owned.add(new TopicPartition(each.get(0).asText(), each.get(1).asInt())));
            String userData = member.get("user_data").asText();
            Subscription subscription = new Subscription(
                    topics,
                    userData.isEmpty() ? null : ByteBuffer.wrap(HexFormat.of().parseHex(userData)),
                    owned,
                    member.get("generation").asInt(),
                    Optional.ofNullable(member.get("rack").asText(null)));
            subscription.setGroupInstanceId(Optional.ofNullable(member.get("instance").asText(null)));
            subscriptions.put(entry.getKey(), subscription);
        });
        return new GroupSubscription(subscriptions);
    }
}
