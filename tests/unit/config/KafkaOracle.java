// Asks Apache Kafka's own classes what a setting is and means. One JSON question a line on stdin, one JSON answer a line on
// stdout; `kafka_oracle.py` starts it with Kafka's jars on the class path. Nothing here decides anything.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.StringReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import kafka.server.ConfigHelper;
import kafka.server.KafkaConfig;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.message.DescribeConfigsRequestData.DescribeConfigsResource;
import org.apache.kafka.common.message.DescribeConfigsResponseData.DescribeConfigsResourceResult;
import org.apache.kafka.common.message.DescribeConfigsResponseData.DescribeConfigsResult;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.metadata.ConfigRepository;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.QuotaConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

public class KafkaOracle {
    static final ObjectMapper JSON = new ObjectMapper();

    static final Map<String, ConfigDef> TABLES = Map.of(
        "broker", KafkaConfig.configDef(),
        "broker_quota", QuotaConfig.brokerQuotaConfigs(),
        "topic", LogConfig.configDefCopy(),
        "group", GroupConfig.CONFIG_DEF,
        "client_metrics", ClientMetricsConfigs.configDef(),
        "user", QuotaConfig.scramMechanismsPlusUserAndClientQuotaConfigs(),
        "ip", QuotaConfig.ipConfigs(),
        "producer", ProducerConfig.configDef(),
        "consumer", ConsumerConfig.configDef(),
        "admin", AdminClientConfig.configDef());

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err); // whatever Kafka has to say must not get between the answers
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            Map<?, ?> question = JSON.readValue(line, Map.class);
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                answer.put("value", answer(question));
                answer.put("ok", true);
            } catch (Throwable refusal) {
                answer.put("ok", false);
                answer.put("why", refusal.toString());
            }
            answers.println(JSON.writeValueAsString(answer));
        }
    }

    static Object answer(Map<?, ?> question) throws Exception {
        switch ((String) question.get("ask")) {
            case "declarations": return declarations();
            case "topic_synonyms": return topicSynonyms();
            case "group_synonyms": return groupSynonyms();
            case "parse": return parse(question);
            case "properties": return properties((String) question.get("text"));
            case "load": return load(question) != null;
            case "check_dynamic": return checkDynamic(question);
            case "check_topic": return checkTopic(question);
            case "check_group": return checkGroup(question);
            case "open_client": return openClient(question);
            case "describe_broker": return describeBroker(question);
            case "describe_topic": return describeTopic(question);
            case "describe_group": return describeGroup(question);
            case "describe_client_metrics": return describeClientMetrics(question);
            default: throw new IllegalArgumentException("no such question");
        }
    }

    static Object declarations() {
        Map<String, String> modes = DynamicBrokerConfig.dynamicConfigUpdateModes();
        Map<String, Object> tables = new TreeMap<>();
        TABLES.forEach((table, definition) -> {
            Map<String, Object> keys = new TreeMap<>();
            for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
                Map<String, Object> facts = new LinkedHashMap<>();
                facts.put("type", key.type.name());
                facts.put("is_required", !key.hasDefault());
                facts.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
                facts.put("validator", key.validator == null ? null : key.validator.toString());
                facts.put("importance", key.importance.name());
                facts.put("is_internal", key.internalConfig);
                facts.put("mode", table.startsWith("broker") ? modes.getOrDefault(key.name, "read-only") : "read-only");
                facts.put("synonyms", table.equals("broker") ? DynamicBrokerConfig.brokerConfigSynonyms(key.name, true) : null);
                keys.put(key.name, facts);
            }
            tables.put(table, keys);
        });
        return tables;
    }

    static Object topicSynonyms() {
        Map<String, Object> all = new TreeMap<>();
        ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.forEach((name, synonyms) -> {
            List<Object> list = new ArrayList<>();
            for (ConfigSynonym synonym : synonyms) {
                // The converter is a function; what it makes of "1" is its factor, and of a word its identity.
                String one;
                try {
                    one = synonym.converter().apply("1");
                } catch (RuntimeException notANumber) {
                    one = "1";
                }
                list.add(List.of(synonym.name(), Long.parseLong(one)));
            }
            all.put(name, list);
        });
        return all;
    }

    static Object groupSynonyms() {
        Map<String, Object> all = new TreeMap<>();
        GroupConfig.ALL_GROUP_CONFIG_SYNONYMS.forEach((name, synonym) -> all.put(name, synonym.orElse(null)));
        return all;
    }

    static Object parse(Map<?, ?> question) {
        ConfigDef.ConfigKey key = TABLES.get(question.get("table")).configKeys().get(question.get("name"));
        Object value = ConfigDef.parseType(key.name, question.get("text"), key.type);
        if (key.validator != null)
            key.validator.ensureValid(key.name, value);
        return ConfigDef.convertToString(value, key.type);
    }

    static Object properties(String text) throws Exception {
        Properties entries = new Properties();
        entries.load(new StringReader(text));
        return entries;
    }

    static KafkaConfig load(Map<?, ?> question) {
        return KafkaConfig.fromProps(props(question, "static"), false);
    }

    static Object checkDynamic(Map<?, ?> question) {
        DynamicBrokerConfig.validateConfigs(props(question, "overrides"), (Boolean) question.get("is_for_one_broker"));
        return true;
    }

    static Object checkTopic(Map<?, ?> question) {
        KafkaConfig broker = load(question);
        LogConfig.validate(strings(question, "previous"), strings(question, "overrides"), broker.extractLogConfigMap(),
            broker.remoteLogManagerConfig().isRemoteStorageSystemEnabled());
        return true;
    }

    static Object checkGroup(Map<?, ?> question) {
        KafkaConfig broker = load(question);
        Map<String, Object> values = new HashMap<>(broker.groupCoordinatorConfig().extractGroupConfigMap(broker.shareGroupConfig()));
        values.putAll(strings(question, "overrides"));
        GroupConfig.validateNames(strings(question, "overrides"));
        GroupConfig.validate(values, broker.groupCoordinatorConfig(), broker.shareGroupConfig());
        return true;
    }

    // What a client makes of its settings when it is built; nothing is connected to. The values are those that follow.
    static Object openClient(Map<?, ?> question) {
        Map<String, Object> given = new HashMap<>(strings(question, "settings"));
        given.putIfAbsent("bootstrap.servers", "127.0.0.1:1");
        given.put("enable.metrics.push", "false");
        String bytes = "org.apache.kafka.common.serialization.ByteArray";
        switch ((String) question.get("table")) {
            case "producer":
                given.put("key.serializer", bytes + "Serializer");
                given.put("value.serializer", bytes + "Serializer");
                new KafkaProducer<byte[], byte[]>(given).close(Duration.ZERO);
                return shown(new ProducerConfig(given), TABLES.get("producer"));
            case "consumer":
                given.put("key.deserializer", bytes + "Deserializer");
                given.put("value.deserializer", bytes + "Deserializer");
                new KafkaConsumer<byte[], byte[]>(given).close(CloseOptions.timeout(Duration.ZERO));
                return shown(new ConsumerConfig(given), TABLES.get("consumer"));
            default:
                if (given.containsKey("bootstrap.controllers") && question.get("servers") == null)
                    given.remove("bootstrap.servers");
                Admin.create(given).close(Duration.ZERO);
                return shown(new AdminClientConfig(given), TABLES.get("admin"));
        }
    }

    static Object shown(AbstractConfig config, ConfigDef definition) {
        Map<String, Object> values = new TreeMap<>();
        definition.configKeys().forEach((name, key) -> values.put(name, ConfigDef.convertToString(config.values().get(name), key.type)));
        return values;
    }

    static Object describeBroker(Map<?, ?> question) {
        return describe(question, ConfigResource.Type.BROKER, (String) question.get("name"), new Properties());
    }

    static Object describeGroup(Map<?, ?> question) {
        return describe(question, ConfigResource.Type.GROUP, "any", props(question, "overrides"));
    }

    static Object describeClientMetrics(Map<?, ?> question) {
        return describe(question, ConfigResource.Type.CLIENT_METRICS, "any", props(question, "overrides"));
    }

    static Object describe(Map<?, ?> question, ConfigResource.Type type, String name, Properties overrides) {
        KafkaConfig broker = runningBroker(question);
        ConfigHelper helper = new ConfigHelper(null, broker, resource -> overrides);
        DescribeConfigsResource resource = new DescribeConfigsResource().setResourceType(type.id()).setResourceName(name);
        DescribeConfigsResult result = helper.describeConfigs(
            scala.jdk.javaapi.CollectionConverters.asScala(List.of(resource)).toList(), true, true).head();
        if (result.errorCode() != 0)
            throw new IllegalStateException(result.errorMessage());
        List<Object> entries = new ArrayList<>();
        for (DescribeConfigsResourceResult entry : result.configs())
            entries.add(entryFacts(entry));
        return entries;
    }

    static Object describeTopic(Map<?, ?> question) {
        KafkaConfig broker = runningBroker(question);
        Properties overrides = props(question, "overrides");
        LogConfig topic = LogConfig.fromProps(broker.extractLogConfigMap(), overrides);
        ConfigHelper helper = new ConfigHelper(null, broker, resource -> overrides);
        Map<String, Object> values = new TreeMap<>(((AbstractConfig) topic).originals());
        values.putAll(topic.nonInternalValues());
        List<Object> entries = new ArrayList<>();
        values.forEach((name, value) ->
            entries.add(entryFacts(helper.createTopicConfigEntry(topic, overrides, true, true, name, value))));
        return entries;
    }

    static KafkaConfig runningBroker(Map<?, ?> question) {
        KafkaConfig broker = load(question);
        broker.dynamicConfig().initialize(scala.Option.empty());
        broker.dynamicConfig().updateDefaultConfig(props(question, "cluster"), false);
        broker.dynamicConfig().updateBrokerConfig(broker.brokerId(), props(question, "broker"), false);
        return broker;
    }

    static Object entryFacts(DescribeConfigsResourceResult entry) {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("name", entry.name());
        facts.put("value", entry.value());
        facts.put("source", entry.configSource());
        facts.put("is_sensitive", entry.isSensitive());
        facts.put("read_only", entry.readOnly());
        facts.put("type", entry.configType());
        List<Object> synonyms = new ArrayList<>();
        entry.synonyms().forEach(synonym -> {
            List<Object> one = new ArrayList<>();
            one.add(synonym.name());
            one.add(synonym.value());
            one.add(synonym.source());
            synonyms.add(one);
        });
        facts.put("synonyms", synonyms);
        return facts;
    }

    static Properties props(Map<?, ?> question, String field) {
        Properties properties = new Properties();
        properties.putAll(strings(question, field));
        return properties;
    }

    @SuppressWarnings("unchecked")
    static Map<String, String> strings(Map<?, ?> question, String field) {
        return (Map<String, String>) Optional.ofNullable((Object) question.get(field)).orElse(Map.of());
    }
}
