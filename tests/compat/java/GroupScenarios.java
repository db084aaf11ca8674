import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.DescribeConsumerGroupsOptions;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidRegularExpression;
import org.apache.kafka.common.errors.OffsetMetadataTooLarge;
import org.apache.kafka.common.errors.UnreleasedInstanceIdException;

/** Groups in programs, beyond reading and committing. Each scenario throws if its expectation fails. */
final class GroupScenarios {
    private static final Duration POLL = Duration.ofMillis(50);
    private static final Map<String, String> CLASSIC =
            Map.of("group.protocol", "classic", "heartbeat.interval.ms", "200", "session.timeout.ms", "6000");
    private static final Map<String, String> NEW = Map.of("group.protocol", "consumer");

    private final Cluster cluster;

    GroupScenarios(Cluster cluster) {
        this.cluster = cluster;
    }

    /** By name. */
    Map<String, Scenario> all() {
        Map<String, Scenario> all = new LinkedHashMap<>();
        all.put("a-second-static-member-fences-the-first", this::fencedInstance);
        all.put("a-second-static-member-waits-for-the-first", this::unreleasedInstance);
        all.put("broker-side-pattern", this::brokerSidePattern);
        all.put("client-side-pattern", this::clientSidePattern);
        all.put("committed-by-a-simple-consumer", this::simpleConsumer);
        all.put("described-with-operations", this::authorizedOperations);
        all.put("group-configs", this::groupConfigs);
        all.put("groups-listed-by-kind", this::listed);
        all.put("members-removed-by-an-operator", this::membersRemoved);
        all.put("offsets-of-several-groups", this::offsetsOfSeveralGroups);
        all.put("partitions-added-classic", () -> partitionsAdded(CLASSIC));
        all.put("partitions-added-consumer", () -> partitionsAdded(NEW));
        all.put("remaining-in-the-group", this::remaining);
        all.put("too-slow-a-member-classic", () -> tooSlow(CLASSIC));
        all.put("too-slow-a-member-consumer", () -> tooSlow(NEW));
        all.put("topic-deleted-classic", () -> topicDeleted(CLASSIC));
        all.put("topic-deleted-consumer", () -> topicDeleted(NEW));
        return all;
    }

    private KafkaConsumer<String, String> member(String group, Map<String, String> settings, Map<String, String> more) {
        Map<String, String> all = new HashMap<>(settings);
        all.put("group.id", group);
        all.put("auto.offset.reset", "earliest");
        all.put("enable.auto.commit", "false");
        all.put("fetch.max.wait.ms", "50");
        all.put("metadata.max.age.ms", "300");
        all.putAll(more);
        return cluster.consumer(all);
    }

    /** Polls all of them in turn until the condition holds. */
    private static void pollUntil(List<KafkaConsumer<String, String>> members, Callable<Boolean> isSo) throws Exception {
        Cluster.eventually(() -> {
            for (KafkaConsumer<String, String> member : members) {
                member.poll(POLL);
            }
            return isSo.call();
        });
    }

    private static Set<TopicPartition> partitions(String topic, int... numbers) {
        return java.util.Arrays.stream(numbers)
                .mapToObj(number -> new TopicPartition(topic, number))
                .collect(Collectors.toSet());
    }

    private static boolean owns(KafkaConsumer<String, String> member, Collection<TopicPartition> partitions) {
        return member.assignment().equals(Set.copyOf(partitions));
    }

    private ConsumerGroupDescription describe(String group) throws Exception {
        return cluster.admin.describeConsumerGroups(List.of(group)).describedGroups().get(group).get();
    }

    private void fencedInstance() throws Exception {
        String topic = cluster.create("java-fenced", 2, Map.of());
        String group = cluster.name("java-fenced-group");
        Map<String, String> same = Map.of("group.instance.id", "the-same");
        try (KafkaConsumer<String, String> first = member(group, CLASSIC, same);
                KafkaConsumer<String, String> second = member(group, CLASSIC, same)) {
            first.subscribe(List.of(topic));
            pollUntil(List.of(first), () -> owns(first, partitions(topic, 0, 1)));
            second.subscribe(List.of(topic));
            pollUntil(List.of(second), () -> owns(second, partitions(topic, 0, 1)));
            Cluster.fails(FencedInstanceIdException.class, () -> {
                pollUntil(List.of(first), () -> false);
                return null;
            });
            Cluster.equal(1, describe(group).members().size(), "members");
        }
    }

    private void unreleasedInstance() throws Exception {
        String topic = cluster.create("java-unreleased", 2, Map.of());
        String group = cluster.name("java-unreleased-group");
        Map<String, String> same = Map.of("group.instance.id", "the-same");
        try (KafkaConsumer<String, String> first = member(group, NEW, same);
                KafkaConsumer<String, String> second = member(group, NEW, same)) {
            first.subscribe(List.of(topic));
            pollUntil(List.of(first), () -> owns(first, partitions(topic, 0, 1)));
            second.subscribe(List.of(topic));
            Cluster.fails(UnreleasedInstanceIdException.class, () -> {
                pollUntil(List.of(second), () -> false);
                return null;
            });
            first.poll(POLL);
            Cluster.equal(true, owns(first, partitions(topic, 0, 1)), "the first is not disturbed");
        }
    }

    private void brokerSidePattern() throws Exception {
        String stem = cluster.name("java-pattern");
        String one = cluster.create(stem + "-one", 1, Map.of());
        String two = cluster.create(stem + "-two", 1, Map.of());
        cluster.create(cluster.name("java-other"), 1, Map.of());
        String group = cluster.name("java-pattern-group");
        try (KafkaConsumer<String, String> member = member(group, NEW, Map.of());
                KafkaConsumer<String, String> wrong = member(group, NEW, Map.of())) {
            member.subscribe(new SubscriptionPattern(Pattern.quote(stem) + "-(one|two)-.*"));
            Set<TopicPartition> expected = Set.of(new TopicPartition(one, 0), new TopicPartition(two, 0));
            pollUntil(List.of(member), () -> owns(member, expected));
            member.subscribe(new SubscriptionPattern(Pattern.quote(stem) + "-one-.*"));
            pollUntil(List.of(member), () -> owns(member, partitions(one, 0)));
            wrong.subscribe(new SubscriptionPattern("(unclosed"));
            Cluster.fails(InvalidRegularExpression.class, () -> {
                pollUntil(List.of(wrong), () -> false);
                return null;
            });
        }
    }

    /** The client finds matching topics, also those created later. */
    private void clientSidePattern() throws Exception {
        String stem = cluster.name("java-matched");
        String one = cluster.create(stem + "-one", 1, Map.of());
        for (Map<String, String> protocol : List.of(CLASSIC, NEW)) {
            try (KafkaConsumer<String, String> member = member(cluster.name("java-matching"), protocol, Map.of())) {
                member.subscribe(Pattern.compile(Pattern.quote(stem) + "-.*"));
                pollUntil(List.of(member), () -> member.assignment().contains(new TopicPartition(one, 0)));
                String later = cluster.create(stem + "-later", 1, Map.of());
                pollUntil(List.of(member), () -> member.assignment().contains(new TopicPartition(later, 0)));
            }
        }
    }

    private void simpleConsumer() throws Exception {
        String topic = cluster.create("java-simple", 1, Map.of());
        String group = cluster.name("java-simple-group");
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> producer = cluster.producer(Map.of())) {
            producer.send(new ProducerRecord<>(topic, "x")).get();
        }
        for (Map<String, String> protocol : List.of(CLASSIC, NEW)) {
            try (KafkaConsumer<String, String> consumer = member(group, protocol, Map.of())) {
                consumer.assign(List.of(partition));
                OffsetAndMetadata place = new OffsetAndMetadata(1, Optional.of(0), "wohin? 何処");
                consumer.commitSync(Map.of(partition, place));
                Cluster.equal(place, consumer.committed(Set.of(partition)).get(partition), "committed");
                Cluster.fails(OffsetMetadataTooLarge.class, () -> {
                    consumer.commitSync(Map.of(partition, new OffsetAndMetadata(2, "x".repeat(5000))));
                    return null;
                });
                Cluster.equal(place, consumer.committed(Set.of(partition)).get(partition), "committed before");
            }
        }
        ConsumerGroupDescription described = describe(group);
        Cluster.equal(true, described.isSimpleConsumerGroup(), "is a simple group");
        Cluster.equal(GroupState.EMPTY, described.groupState(), "state");
    }

    private void authorizedOperations() throws Exception {
        String topic = cluster.create("java-operations", 1, Map.of());
        for (Map<String, String> protocol : List.of(CLASSIC, NEW)) {
            String group = cluster.name("java-operations-group");
            try (KafkaConsumer<String, String> member = member(group, protocol, Map.of("client.rack", "here"))) {
                member.subscribe(List.of(topic));
                pollUntil(List.of(member), () -> owns(member, partitions(topic, 0)));
                ConsumerGroupDescription described = cluster.admin
                        .describeConsumerGroups(
                                List.of(group), new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true))
                        .describedGroups()
                        .get(group)
                        .get();
                Cluster.equal(
                        Set.of(AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE,
                                AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
                        described.authorizedOperations(), "operations");
                Cluster.equal(member.groupMetadata().memberId(),
                        described.members().iterator().next().consumerId(), "member");
            }
        }
        Cluster.fails(GroupIdNotFoundException.class, () -> describe("java-nobody"));
    }

    private void groupConfigs() throws Exception {
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, cluster.name("java-configured"));
        AlterConfigOp set = new AlterConfigOp(
                new ConfigEntry("consumer.heartbeat.interval.ms", "300"), AlterConfigOp.OpType.SET);
        cluster.admin.incrementalAlterConfigs(Map.of(group, List.of(set))).all().get();
        Cluster.eventually(() -> cluster.admin.describeConfigs(List.of(group)).all().get().get(group)
                .get("consumer.heartbeat.interval.ms").value().equals("300"));
        AlterConfigOp tooLow = new AlterConfigOp(
                new ConfigEntry("consumer.heartbeat.interval.ms", "1"), AlterConfigOp.OpType.SET);
        Cluster.fails(InvalidConfigurationException.class,
                () -> cluster.admin.incrementalAlterConfigs(Map.of(group, List.of(tooLow))).all().get());
    }

    private void listed() throws Exception {
        String topic = cluster.create("java-listed", 1, Map.of());
        String classic = cluster.name("java-listed-classic");
        String consumer = cluster.name("java-listed-consumer");
        try (KafkaConsumer<String, String> one = member(classic, CLASSIC, Map.of());
                KafkaConsumer<String, String> other = member(consumer, NEW, Map.of())) {
            one.subscribe(List.of(topic));
            other.subscribe(List.of(topic));
            pollUntil(List.of(one, other), () -> owns(one, partitions(topic, 0)) && owns(other, partitions(topic, 0)));
            Cluster.eventually(() -> listedNow(ListGroupsOptions.forConsumerGroups().inGroupStates(Set.of(GroupState.STABLE)))
                    .containsAll(Set.of(classic, consumer)));
            Set<String> ofNewType = listedNow(new ListGroupsOptions().withTypes(Set.of(GroupType.CONSUMER)));
            Cluster.equal(true, ofNewType.contains(consumer), "listed by its type");
            Cluster.equal(false, ofNewType.contains(classic), "listed by another type");
            Cluster.equal(false, listedNow(new ListGroupsOptions().inGroupStates(Set.of(GroupState.EMPTY))).contains(classic),
                    "listed by another state");
        }
    }

    private Set<String> listedNow(ListGroupsOptions options) throws Exception {
        return cluster.admin.listGroups(options).all().get().stream().map(GroupListing::groupId).collect(Collectors.toSet());
    }

    private void membersRemoved() throws Exception {
        String topic = cluster.create("java-removed", 2, Map.of());
        for (Map<String, String> protocol : List.of(CLASSIC, NEW)) {
            String group = cluster.name("java-removed-group");
            KafkaConsumer<String, String> gone = member(group, protocol, Map.of("group.instance.id", "gone"));
            try (KafkaConsumer<String, String> stays = member(group, protocol, Map.of("group.instance.id", "stays"))) {
                gone.subscribe(List.of(topic));
                stays.subscribe(List.of(topic));
                pollUntil(List.of(gone, stays), () -> gone.assignment().size() == 1 && stays.assignment().size() == 1);
                gone.close(); // a static member is expected back, and keeps its partition
                Cluster.equal(2, describe(group).members().size(), "members while one is away");
                cluster.admin.removeMembersFromConsumerGroup(
                        group, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("gone")))).all().get();
                pollUntil(List.of(stays), () -> owns(stays, partitions(topic, 0, 1)));
            }
            cluster.admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions()).all().get();
            Cluster.eventually(() -> describe(group).members().isEmpty());
        }
    }

    private void offsetsOfSeveralGroups() throws Exception {
        String topic = cluster.create("java-several", 2, Map.of());
        Map<String, ListConsumerGroupOffsetsSpec> specs = new HashMap<>();
        List<String> groups = new ArrayList<>();
        for (int number = 0; number < 5; number++) {
            String group = cluster.name("java-several-group");
            groups.add(group);
            cluster.admin.alterConsumerGroupOffsets(
                    group, Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(number))).all().get();
            specs.put(group, new ListConsumerGroupOffsetsSpec());
        }
        Map<String, Map<TopicPartition, OffsetAndMetadata>> found = cluster.admin.listConsumerGroupOffsets(specs).all().get();
        for (int number = 0; number < 5; number++) {
            Cluster.equal((long) number, found.get(groups.get(number)).get(new TopicPartition(topic, 0)).offset(), "offset");
        }
        cluster.admin.deleteConsumerGroups(groups).all().get();
    }

    private void partitionsAdded(Map<String, String> protocol) throws Exception {
        String topic = cluster.create("java-grown", 1, Map.of());
        String group = cluster.name("java-grown-group");
        try (KafkaConsumer<String, String> one = member(group, protocol, Map.of());
                KafkaConsumer<String, String> other = member(group, protocol, Map.of())) {
            one.subscribe(List.of(topic));
            other.subscribe(List.of(topic));
            pollUntil(List.of(one, other), () -> one.assignment().size() + other.assignment().size() == 1);
            cluster.admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4))).all().get();
            pollUntil(List.of(one, other), () -> one.assignment().size() == 2 && other.assignment().size() == 2);
        }
    }

    /** A member that only closes its sockets stays a member until its session expires. */
    private void remaining() throws Exception {
        String topic = cluster.create("java-remaining", 1, Map.of());
        String group = cluster.name("java-remaining-group");
        Map<String, String> shortSession = Map.of("session.timeout.ms", "1500");
        KafkaConsumer<String, String> member = member(group, CLASSIC, shortSession);
        member.subscribe(List.of(topic));
        pollUntil(List.of(member), () -> owns(member, partitions(topic, 0)));
        member.close(CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP));
        Cluster.equal(1, describe(group).members().size(), "members right after");
        Cluster.eventually(() -> describe(group).members().isEmpty());
    }

    private void tooSlow(Map<String, String> protocol) throws Exception {
        String topic = cluster.create("java-slow", 1, Map.of());
        String group = cluster.name("java-slow-group");
        try (KafkaConsumer<String, String> slow = member(group, protocol, Map.of("max.poll.interval.ms", "600"));
                KafkaConsumer<String, String> other = member(group, protocol, Map.of())) {
            slow.subscribe(List.of(topic));
            pollUntil(List.of(slow), () -> owns(slow, partitions(topic, 0)));
            other.subscribe(List.of(topic));
            pollUntil(List.of(other), () -> owns(other, partitions(topic, 0)));
            Cluster.fails(CommitFailedException.class, () -> {
                slow.commitSync(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(7)));
                return null;
            });
            Cluster.equal(null, other.committed(partitions(topic, 0)).get(new TopicPartition(topic, 0)), "committed");
        }
    }

    private void topicDeleted(Map<String, String> protocol) throws Exception {
        String kept = cluster.create("java-kept", 1, Map.of());
        String deleted = cluster.create("java-deleted", 1, Map.of());
        String group = cluster.name("java-shrunk-group");
        try (KafkaConsumer<String, String> member = member(group, protocol, Map.of("allow.auto.create.topics", "false"))) {
            member.subscribe(List.of(kept, deleted));
            pollUntil(List.of(member), () -> member.assignment().size() == 2);
            member.commitSync(Map.of(new TopicPartition(kept, 0), new OffsetAndMetadata(0),
                    new TopicPartition(deleted, 0), new OffsetAndMetadata(0)));
            cluster.admin.deleteTopics(List.of(deleted)).all().get();
            pollUntil(List.of(member), () -> owns(member, partitions(kept, 0)));
        }
        Cluster.eventually(() -> cluster.admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get()
                .keySet().equals(partitions(kept, 0)));
    }
}
