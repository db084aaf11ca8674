import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnknownTopicIdException;

/** Administration by programs. Each scenario throws if its expectation fails. */
final class AdminScenarios {
    private final Cluster cluster;

    AdminScenarios(Cluster cluster) {
        this.cluster = cluster;
    }

    /** By name. */
    Map<String, Scenario> all() {
        Map<String, Scenario> all = new LinkedHashMap<>();
        all.put("topic-ids", this::topicIds);
        all.put("topic-made-again", this::topicMadeAgain);
        all.put("describe-many-topics", this::describeManyTopics);
        all.put("validate-only", this::validateOnly);
        all.put("configs", this::configs);
        all.put("log-dirs", this::logDirs);
        all.put("producers", this::producers);
        all.put("quorum", this::quorum);
        all.put("cluster", this::cluster);
        return all;
    }

    private void topicIds() throws Exception {
        String topic = cluster.name("java-ids");
        CreateTopicsResult created =
                cluster.admin.createTopics(List.of(new NewTopic(topic, 2, (short) 1).configs(Map.of("flush.ms", "1234"))));
        Uuid id = created.topicId(topic).get();
        Cluster.equal(2, created.numPartitions(topic).get(), "partitions");
        Cluster.equal(1, created.replicationFactor(topic).get(), "replicas");
        Cluster.equal("1234", created.config(topic).get().get("flush.ms").value(), "config of the new topic");
        Cluster.eventually(() -> cluster.admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).topicId().equals(id));
        TopicDescription byId = cluster.admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get().get(id);
        Cluster.equal(topic, byId.name(), "name by id");
        cluster.admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get();
        Cluster.eventually(() -> !cluster.admin.listTopics().names().get().contains(topic));
        Cluster.fails(UnknownTopicIdException.class,
                () -> cluster.admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get());
        Cluster.fails(UnknownTopicIdException.class,
                () -> cluster.admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get());
    }

    /** A producer and a consumer that know a deleted topic's id find the new topic of the same name. */
    private void topicMadeAgain() throws Exception {
        String topic = cluster.create("java-again", 1, Map.of());
        Map<String, String> quick = Map.of("metadata.max.age.ms", "500", "auto.offset.reset", "earliest");
        try (KafkaProducer<String, String> producer = cluster.producer(Map.of("metadata.max.age.ms", "500"));
                KafkaConsumer<String, String> consumer = cluster.consumer(quick)) {
            producer.send(new ProducerRecord<>(topic, "old")).get();
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            consumer.seekToBeginning(consumer.assignment());
            Cluster.equal("old", Cluster.poll(consumer, 1).get(0).value(), "before");
            cluster.admin.deleteTopics(List.of(topic)).all().get();
            Cluster.eventually(() -> !cluster.admin.listTopics().names().get().contains(topic));
            cluster.admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
            Cluster.eventually(() -> cluster.admin.listTopics().names().get().contains(topic));
            producer.send(new ProducerRecord<>(topic, "new")).get();
            consumer.seekToBeginning(consumer.assignment());
            Cluster.equal("new", Cluster.poll(consumer, 1).get(0).value(), "after");
        }
    }

    private void describeManyTopics() throws Exception {
        List<NewTopic> wanted = IntStream.range(0, 50)
                .mapToObj(i -> new NewTopic(cluster.name("java-many"), 10, (short) 1))
                .collect(Collectors.toList());
        List<String> names = wanted.stream().map(NewTopic::name).collect(Collectors.toList());
        cluster.admin.createTopics(wanted).all().get();
        Cluster.eventually(() -> cluster.admin.listTopics().names().get().containsAll(names));
        Map<String, TopicDescription> found = cluster.admin.describeTopics(names).allTopicNames().get();
        for (String topic : names) {
            List<Integer> partitions =
                    found.get(topic).partitions().stream().map(p -> p.partition()).collect(Collectors.toList());
            Cluster.equal(IntStream.range(0, 10).boxed().collect(Collectors.toList()), partitions, topic);
        }
        cluster.admin.createPartitions(Map.of(names.get(0), NewPartitions.increaseTo(12))).all().get();
        Cluster.eventually(() -> cluster.admin.describeTopics(names).allTopicNames().get().get(names.get(0)).partitions().size() == 12);
        cluster.admin.deleteTopics(names).all().get();
    }

    private void validateOnly() throws Exception {
        String topic = cluster.name("java-validated");
        CreateTopicsResult result = cluster.admin.createTopics(
                List.of(new NewTopic(topic, 4, (short) 1)), new CreateTopicsOptions().validateOnly(true));
        Cluster.equal(4, result.numPartitions(topic).get(), "partitions that would be");
        Cluster.equal(false, cluster.admin.listTopics().names().get().contains(topic), "existence");
    }

    private void configs() throws Exception {
        String topic = cluster.create("java-configs", 1, Map.of());
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        DescribeConfigsOptions full = new DescribeConfigsOptions().includeDocumentation(true).includeSynonyms(true);
        Config config = cluster.admin.describeConfigs(List.of(resource), full).all().get().get(resource);
        ConfigEntry retention = config.get("retention.ms");
        Cluster.equal("604800000", retention.value(), "default");
        Cluster.equal(ConfigEntry.ConfigType.LONG, retention.type(), "type");
        Cluster.equal(true, retention.documentation() != null && retention.documentation().length() > 20, "documentation");
        for (ConfigEntry entry : config.entries()) {
            Cluster.equal(true, entry.documentation() != null && !entry.documentation().isEmpty(), "words on " + entry.name());
        }
        Collection<AlterConfigOp> change = List.of(
                new AlterConfigOp(new ConfigEntry("retention.ms", "1000"), AlterConfigOp.OpType.SET),
                new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.APPEND));
        cluster.admin.incrementalAlterConfigs(Map.of(resource, change)).all().get();
        Cluster.eventually(() -> cluster.admin.describeConfigs(List.of(resource)).all().get().get(resource)
                .get("cleanup.policy").value().equals("delete,compact"));
        Collection<AlterConfigOp> back =
                List.of(new AlterConfigOp(new ConfigEntry("cleanup.policy", "delete"), AlterConfigOp.OpType.SUBTRACT));
        cluster.admin.incrementalAlterConfigs(Map.of(resource, back)).all().get();
        Cluster.eventually(() -> cluster.admin.describeConfigs(List.of(resource)).all().get().get(resource)
                .get("cleanup.policy").value().equals("compact"));
        Set<ConfigResource.Type> topics = Set.of(ConfigResource.Type.TOPIC);
        Cluster.equal(true, cluster.admin.listConfigResources(topics, new ListConfigResourcesOptions()).all().get().contains(resource),
                "listed as a resource");
        Node node = cluster.admin.describeCluster().nodes().get().iterator().next();
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, node.idString());
        Config ofBroker = cluster.admin.describeConfigs(List.of(broker), full).all().get().get(broker);
        Cluster.equal(true, ofBroker.get("log.dirs").isReadOnly(), "log.dirs is read-only");
    }

    private void logDirs() throws Exception {
        String topic = cluster.create("java-log-dirs", 1, Map.of());
        try (KafkaProducer<String, String> producer = cluster.producer(Map.of())) {
            producer.send(new ProducerRecord<>(topic, "v")).get();
        }
        int node = cluster.admin.describeCluster().nodes().get().iterator().next().id();
        TopicPartition partition = new TopicPartition(topic, 0);
        Map<String, LogDirDescription> directories = cluster.admin.describeLogDirs(List.of(node)).allDescriptions().get().get(node);
        String home = directories.entrySet().stream()
                .filter(entry -> entry.getValue().replicaInfos().containsKey(partition))
                .map(Map.Entry::getKey).findFirst().orElseThrow();
        LogDirDescription directory = directories.get(home);
        Cluster.equal(null, directory.error(), "error");
        Cluster.equal(true, directory.replicaInfos().get(partition).size() > 60, "size");
        Cluster.equal(true, directory.totalBytes().orElse(0) > 0, "bytes of the volume");
        Cluster.equal(true, directory.usableBytes().orElse(0) > 0, "usable bytes of the volume");
        TopicPartitionReplica replica = new TopicPartitionReplica(topic, 0, node);
        Cluster.equal(home, cluster.admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica).getCurrentReplicaLogDir(),
                "directory of the replica");
        cluster.admin.alterReplicaLogDirs(Map.of(replica, home)).all().get();
    }

    private void producers() throws Exception {
        String topic = cluster.create("java-producers", 1, Map.of());
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> producer = cluster.producer(Map.of())) {
            for (int i = 0; i < 3; i++) {
                producer.send(new ProducerRecord<>(topic, "v" + i)).get();
            }
        }
        List<ProducerState> states =
                cluster.admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers();
        Cluster.equal(1, states.size(), "producers");
        Cluster.equal(2, states.get(0).lastSequence(), "last sequence");
        Cluster.equal(0, states.get(0).producerEpoch(), "epoch");
    }

    private void quorum() throws Exception {
        QuorumInfo info = cluster.admin.describeMetadataQuorum().quorumInfo().get();
        Cluster.equal(1, info.voters().size(), "voters");
        Cluster.equal(info.leaderId(), info.voters().get(0).replicaId(), "leader");
        Cluster.equal(true, info.highWatermark() > 0, "high watermark");
        Cluster.equal(true, cluster.admin.describeFeatures().featureMetadata().get().finalizedFeatures().containsKey("metadata.version"),
                "metadata.version is finalized");
    }

    private void cluster() throws Exception {
        Cluster.equal(1, cluster.admin.describeCluster().nodes().get().size(), "nodes");
        Cluster.equal(22, cluster.admin.describeCluster().clusterId().get().length(), "length of the cluster id");
        Node controller = cluster.admin.describeCluster().controller().get();
        Cluster.equal("127.0.0.1", controller.host(), "host");
        Cluster.equal(cluster.bootstrap.split(":")[1], Integer.toString(controller.port()), "port");
    }
}
