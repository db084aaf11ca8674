import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.function.Consumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KGroupedTable;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.UnlimitedWindows;
import org.apache.kafka.streams.kstream.ValueTransformerWithKey;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.Cancellable;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Runs topologies of Kafka Streams in its own test driver, to be compared with Penstock's of the same names.
 *
 * <p>Each line of stdin is {@code {"topology": name, "records": [[topic, key, value, timestamp], ...]}}; each is answered by one
 * line with what was written to the topic {@code out}: {@code [[key, value, timestamp], ...]}, bytes in hexadecimal digits.
 * All keys and values that are sent are text; {@code left} and {@code right} are the topics that are read.
 */
public final class StreamTopologies {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Serde<String> TEXT = Serdes.String();
    private static final Map<String, Consumer<StreamsBuilder>> TOPOLOGIES = new LinkedHashMap<>();

    private static Duration ms(long milliseconds) {
        return Duration.ofMillis(milliseconds);
    }

    private static KStream<String, String> left(StreamsBuilder builder) {
        return builder.stream("left");
    }

    private static KStream<String, String> right(StreamsBuilder builder) {
        return builder.stream("right");
    }

    private static KGroupedStream<String, String> grouped(StreamsBuilder builder) {
        return left(builder).groupByKey();
    }

    private static <K, V> void write(KTable<K, V> table, Serde<K> keys, Serde<V> values) {
        table.toStream().to("out", Produced.with(keys, values));
    }

    private static <V> void writeWindows(KTable<Windowed<String>, V> table, long size, Serde<V> values) {
        write(table, WindowedSerdes.timeWindowedSerdeFrom(String.class, size), values);
    }

    private static <V> void writeSessions(KTable<Windowed<String>, V> table, Serde<V> values) {
        write(table, WindowedSerdes.sessionWindowedSerdeFrom(String.class), values);
    }

    private static Materialized<String, String, KeyValueStore<Bytes, byte[]>> text() {
        return Materialized.with(TEXT, TEXT);
    }

    /** Longer than any run, so that no result depends on when a store drops records. */
    private static <V> Materialized<String, V, WindowStore<Bytes, byte[]>> windows(Serde<V> values) {
        return Materialized.<String, V, WindowStore<Bytes, byte[]>>with(TEXT, values).withRetention(Duration.ofDays(1));
    }

    private static <V> Materialized<String, V, SessionStore<Bytes, byte[]>> sessions(Serde<V> values) {
        return Materialized.<String, V, SessionStore<Bytes, byte[]>>with(TEXT, values).withRetention(Duration.ofDays(1));
    }

    private static String shown(Object left, Object right) {
        return left + "+" + right;
    }

    /** The foreign key of a table's value: its first letter, if there is one and it is not an x. */
    private static String reference(String value) {
        return value.isEmpty() || value.startsWith("x") ? null : value.substring(0, 1);
    }

    static {
        final JoinWindows within = JoinWindows.ofTimeDifferenceAndGrace(ms(5), ms(2)).after(ms(3));
        final TimeWindows tumbling = TimeWindows.ofSizeAndGrace(ms(10), ms(5));
        final TimeWindows hopping = TimeWindows.ofSizeAndGrace(ms(10), ms(3)).advanceBy(ms(4));
        final SlidingWindows sliding = SlidingWindows.ofTimeDifferenceAndGrace(ms(10), ms(5));
        final SessionWindows gaps = SessionWindows.ofInactivityGapAndGrace(ms(5), ms(3));
        final StreamJoined<String, String, String> joined = StreamJoined.with(TEXT, TEXT, TEXT);

        TOPOLOGIES.put("count", b -> write(grouped(b).count(), TEXT, Serdes.Long()));
        TOPOLOGIES.put("reduce", b -> write(grouped(b).reduce(StreamTopologies::shown), TEXT, TEXT));
        TOPOLOGIES.put("aggregate", b ->
            write(grouped(b).aggregate(() -> "", (key, value, all) -> all + value, text()), TEXT, TEXT));
        TOPOLOGIES.put("group-by", b -> write(
            left(b).groupBy((key, value) -> reference(value), Grouped.with(TEXT, TEXT)).count(), TEXT, Serdes.Long()));
        TOPOLOGIES.put("words", b -> write(
            left(b).flatMapValues(value -> Arrays.asList(value.split("")))
                .groupBy((key, value) -> value, Grouped.with(TEXT, TEXT)).count(), TEXT, Serdes.Long()));
        TOPOLOGIES.put("stateless", b -> {
            final KStream<String, String> some = left(b).filter((key, value) -> value != null && !value.startsWith("a"));
            some.filterNot((key, value) -> value.endsWith("b")).map((key, value) -> KeyValue.pair(value, key))
                .merge(right(b).mapValues((key, value) -> key + value)).selectKey((key, value) -> value)
                .flatMap((key, value) -> Arrays.asList(KeyValue.pair(key, "1"), KeyValue.pair("2", value))).to("out");
        });
        TOPOLOGIES.put("repartition", b -> left(b).selectKey((key, value) -> value).repartition().merge(right(b)).to("out"));
        TOPOLOGIES.put("cogroup", b -> write(
            grouped(b).<String>cogroup((key, value, all) -> all + value)
                .cogroup(right(b).groupByKey(), (key, value, all) -> all + "/" + value)
                .aggregate(() -> "", text()), TEXT, TEXT));

        TOPOLOGIES.put("processor", b -> {
            b.addStateStore(Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore("counts"), TEXT, Serdes.Long()));
            left(b).process(Ticking::new, "counts").to("out");
        });

        TOPOLOGIES.put("processor-windows", b -> {
            b.addStateStore(Stores.windowStoreBuilder(Stores.inMemoryWindowStore("windows", ms(20), ms(5), false), TEXT, TEXT));
            left(b).process(KeepingWindows::new, "windows").to("out");
        });
        TOPOLOGIES.put("processor-windows-on-disk", b -> {
            b.addStateStore(Stores.windowStoreBuilder(Stores.persistentWindowStore("windows", ms(20), ms(5), false), TEXT, TEXT));
            left(b).process(KeepingWindows::new, "windows").to("out");
        });
        TOPOLOGIES.put("processor-sessions", b -> {
            b.addStateStore(Stores.sessionStoreBuilder(Stores.inMemorySessionStore("sessions", ms(20)), TEXT, TEXT));
            left(b).process(KeepingSessions::new, "sessions").to("out");
        });

        TOPOLOGIES.put("unlimited", b -> writeWindows(
            grouped(b).windowedBy(UnlimitedWindows.of().startOn(Instant.ofEpochMilli(20))).count(), Long.MAX_VALUE, Serdes.Long()));
        TOPOLOGIES.put("tumbling", b -> writeWindows(
            grouped(b).windowedBy(tumbling).aggregate(() -> "", (key, value, all) -> all + value,
                windows(TEXT)), 10, TEXT));
        TOPOLOGIES.put("hopping", b -> writeWindows(grouped(b).windowedBy(hopping).count(windows(Serdes.Long())), 10, Serdes.Long()));
        TOPOLOGIES.put("sliding", b -> writeWindows(
            grouped(b).windowedBy(sliding).aggregate(() -> "", (key, value, all) -> all + value,
                windows(TEXT)), 10, TEXT));
        TOPOLOGIES.put("sliding-reduce", b ->
            writeWindows(grouped(b).windowedBy(sliding).reduce(StreamTopologies::shown, windows(TEXT)), 10, TEXT));
        TOPOLOGIES.put("sessions", b -> writeSessions(
            grouped(b).windowedBy(gaps).aggregate(() -> "", (key, value, all) -> all + value,
                (key, one, two) -> one + two, sessions(TEXT)), TEXT));
        TOPOLOGIES.put("sessions-count", b -> writeSessions(grouped(b).windowedBy(gaps).count(sessions(Serdes.Long())), Serdes.Long()));
        TOPOLOGIES.put("cogroup-tumbling", b -> writeWindows(
            grouped(b).<String>cogroup((key, value, all) -> all + value)
                .cogroup(right(b).groupByKey(), (key, value, all) -> all + "/" + value)
                .windowedBy(tumbling).aggregate(() -> "", windows(TEXT)), 10, TEXT));
        TOPOLOGIES.put("tumbling-close", b -> writeWindows(
            grouped(b).windowedBy(tumbling).emitStrategy(EmitStrategy.onWindowClose()).count(windows(Serdes.Long())), 10, Serdes.Long()));
        TOPOLOGIES.put("hopping-close", b -> writeWindows(
            grouped(b).windowedBy(hopping).emitStrategy(EmitStrategy.onWindowClose()).count(windows(Serdes.Long())), 10, Serdes.Long()));
        TOPOLOGIES.put("sliding-close", b -> writeWindows(
            grouped(b).windowedBy(sliding).emitStrategy(EmitStrategy.onWindowClose()).count(windows(Serdes.Long())), 10, Serdes.Long()));
        TOPOLOGIES.put("sessions-close", b -> writeSessions(
            grouped(b).windowedBy(gaps).emitStrategy(EmitStrategy.onWindowClose()).count(sessions(Serdes.Long())), Serdes.Long()));
        TOPOLOGIES.put("tumbling-suppressed", b -> writeWindows(
            grouped(b).windowedBy(tumbling).count(windows(Serdes.Long()))
                .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())), 10, Serdes.Long()));
        TOPOLOGIES.put("sessions-suppressed", b -> writeSessions(
            grouped(b).windowedBy(gaps).count(sessions(Serdes.Long()))
                .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())), Serdes.Long()));
        TOPOLOGIES.put("time-limit", b -> write(
            b.<String, String>table("left", text())
                .suppress(Suppressed.untilTimeLimit(ms(6), Suppressed.BufferConfig.unbounded())), TEXT, TEXT));
        TOPOLOGIES.put("few-records", b -> write(
            grouped(b).count(Materialized.with(TEXT, Serdes.Long())).suppress(Suppressed.untilTimeLimit(ms(100), Suppressed.BufferConfig.maxRecords(1))),
            TEXT, Serdes.Long()));

        TOPOLOGIES.put("few-bytes", b -> write(
            grouped(b).aggregate(() -> "", (key, value, all) -> all + value, text())
                .suppress(Suppressed.untilTimeLimit(ms(100), Suppressed.BufferConfig.maxBytes(120))), TEXT, TEXT));
        TOPOLOGIES.put("few-records-and-bytes", b -> write(
            b.<String, String>table("left", text()).suppress(
                Suppressed.untilTimeLimit(ms(20), Suppressed.BufferConfig.maxBytes(75).withMaxRecords(3))), TEXT, TEXT));

        TOPOLOGIES.put("stream-join", b -> left(b).join(right(b), StreamTopologies::shown, within, joined).to("out"));
        TOPOLOGIES.put("stream-left-join", b ->
            left(b).leftJoin(right(b), StreamTopologies::shown, within, joined).to("out"));
        TOPOLOGIES.put("stream-outer-join", b ->
            left(b).outerJoin(right(b), StreamTopologies::shown, within, joined).to("out"));
        TOPOLOGIES.put("stream-table-join", b ->
            left(b).join(b.<String, String>table("right"), StreamTopologies::shown).to("out"));
        TOPOLOGIES.put("stream-table-left-join", b ->
            left(b).leftJoin(b.<String, String>table("right"), StreamTopologies::shown).to("out"));
        TOPOLOGIES.put("global-join", b -> {
            final GlobalKTable<String, String> table = b.globalTable("right");
            left(b).join(table, (key, value) -> value == null ? null : reference(value), StreamTopologies::shown).to("out");
        });
        TOPOLOGIES.put("global-left-join", b -> {
            final GlobalKTable<String, String> table = b.globalTable("right");
            left(b).leftJoin(table, (key, value) -> value == null ? null : reference(value), StreamTopologies::shown)
                .to("out");
        });

        TOPOLOGIES.put("stream-versioned-join", b ->
            left(b).join(versioned(b, "right"), StreamTopologies::shown).to("out"));
        TOPOLOGIES.put("stream-versioned-left-join", b ->
            left(b).leftJoin(versioned(b, "right").mapValues((key, value) -> key + value).filter((key, value) -> !value.endsWith("x")),
                StreamTopologies::shown).to("out"));
        TOPOLOGIES.put("stream-versioned-grace-join", b -> left(b).join(versioned(b, "right"), StreamTopologies::shown,
            Joined.with(TEXT, TEXT, TEXT, "joined", ms(12))).to("out"));
        TOPOLOGIES.put("stream-versioned-grace-left-join", b -> left(b).filter((key, value) -> key != null)
            .leftJoin(versioned(b, "right"), StreamTopologies::shown, Joined.with(TEXT, TEXT, TEXT, "joined", ms(12))).to("out"));
        TOPOLOGIES.put("versioned-table", b -> write(versioned(b, "left"), TEXT, TEXT));
        TOPOLOGIES.put("versioned-to-table", b -> write(left(b).toTable(history("left")), TEXT, TEXT));
        TOPOLOGIES.put("versioned-filter", b -> write(
            versioned(b, "left").filter((key, value) -> value.startsWith("a")).mapValues((key, value) -> key + value), TEXT, TEXT));
        TOPOLOGIES.put("versioned-table-join", b -> write(
            versioned(b, "left").join(versioned(b, "right"), StreamTopologies::shown), TEXT, TEXT));
        TOPOLOGIES.put("versioned-table-left-join", b -> write(
            versioned(b, "left").leftJoin(b.<String, String>table("right", text()), StreamTopologies::shown), TEXT, TEXT));
        TOPOLOGIES.put("versioned-table-outer-join", b -> write(
            versioned(b, "left").filter((key, value) -> value.startsWith("a"))
                .outerJoin(versioned(b, "right"), StreamTopologies::shown), TEXT, TEXT));
        TOPOLOGIES.put("versioned-foreign-key-join", b -> write(
            versioned(b, "left").join(versioned(b, "right"), StreamTopologies::reference, StreamTopologies::shown, text()), TEXT, TEXT));
        TOPOLOGIES.put("versioned-aggregate", b -> write(
            versioned(b, "left").groupBy((key, value) -> KeyValue.pair(reference(value), value), Grouped.with(TEXT, TEXT))
                .aggregate(() -> "", (key, value, all) -> all + "+" + value, (key, value, all) -> all + "-" + value, text()),
            TEXT, TEXT));
        TOPOLOGIES.put("table", b -> write(b.<String, String>table("left", text()), TEXT, TEXT));
        TOPOLOGIES.put("table-filter", b -> write(
            b.<String, String>table("left", text()).filter((key, value) -> value.startsWith("a"), text()), TEXT, TEXT));
        TOPOLOGIES.put("table-map-values", b -> write(
            b.<String, String>table("left", text()).mapValues((key, value) -> key + value, text()), TEXT, TEXT));
        TOPOLOGIES.put("table-transform-values", b -> {
            b.addStateStore(Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore("changes"), TEXT, Serdes.Long()));
            write(b.<String, String>table("left", text()).transformValues(Counting::new, text(), "changes"), TEXT, TEXT);
        });
        TOPOLOGIES.put("table-transform-join", b -> {
            b.addStateStore(Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore("changes"), TEXT, Serdes.Long()));
            write(b.<String, String>table("left", text())
                .transformValues(Counting::new, Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("kept")
                    .withKeySerde(TEXT).withValueSerde(TEXT), "changes")
                .leftJoin(b.<String, String>table("right", text()), StreamTopologies::shown), TEXT, TEXT);
        });
        TOPOLOGIES.put("table-count", b -> write(byReference(b).count(), TEXT, Serdes.Long()));
        TOPOLOGIES.put("table-aggregate", b -> write(
            byReference(b).aggregate(() -> "", (key, value, all) -> all + "+" + value,
                (key, value, all) -> all + "-" + value, text()), TEXT, TEXT));
        TOPOLOGIES.put("table-reduce", b -> write(
            byReference(b).reduce((all, value) -> all + "+" + value, (all, value) -> all + "-" + value), TEXT, TEXT));
        TOPOLOGIES.put("table-join", b -> write(
            b.<String, String>table("left", text()).join(b.table("right", text()), StreamTopologies::shown), TEXT, TEXT));
        TOPOLOGIES.put("table-left-join", b -> write(
            b.<String, String>table("left", text()).leftJoin(b.table("right", text()), StreamTopologies::shown), TEXT, TEXT));
        TOPOLOGIES.put("table-outer-join", b -> write(
            b.<String, String>table("left", text()).outerJoin(b.table("right", text()), StreamTopologies::shown), TEXT, TEXT));
        TOPOLOGIES.put("foreign-key-join", b -> write(
            b.<String, String>table("left", text()).join(b.<String, String>table("right", text()),
                StreamTopologies::reference, StreamTopologies::shown, text()), TEXT, TEXT));
        TOPOLOGIES.put("foreign-key-left-join", b -> write(
            b.<String, String>table("left", text()).leftJoin(b.<String, String>table("right", text()),
                StreamTopologies::reference, StreamTopologies::shown, text()), TEXT, TEXT));
    }

    /** Counts by key in a store; every ten milliseconds of stream time it emits how many records it has seen. */
    private static final class Ticking implements Processor<String, String, String, String> {
        private ProcessorContext<String, String> context;
        private KeyValueStore<String, Long> counts;
        private Cancellable timer;

        @Override
        public void init(ProcessorContext<String, String> context) {
            this.context = context;
            counts = context.getStateStore("counts");
            timer = context.schedule(ms(10), PunctuationType.STREAM_TIME, this::tick);
        }

        @Override
        public void process(Record<String, String> record) {
            final String key = record.key() == null ? "none" : record.key();
            final Long count = counts.get(key);
            counts.put(key, count == null ? 1 : count + 1);
            context.forward(record.withKey(key).withValue(key + counts.get(key)));
        }

        private void tick(long time) {
            long seen = 0;
            try (KeyValueIterator<String, Long> all = counts.all()) {
                while (all.hasNext()) {
                    seen += all.next().value;
                }
            }
            context.forward(new Record<>("tick", String.valueOf(seen), time));
            if (seen > 30) {
                timer.cancel();
            }
        }
    }

    /** Keeps values by windows of five milliseconds, and emits the store's content for a key after each record. */
    private static final class KeepingWindows implements Processor<String, String, String, String> {
        private ProcessorContext<String, String> context;
        private WindowStore<String, String> windows;

        @Override
        public void init(ProcessorContext<String, String> context) {
            this.context = context;
            windows = context.getStateStore("windows");
        }

        @Override
        public void process(Record<String, String> record) {
            final String key = record.key() == null ? "none" : record.key();
            final long start = record.timestamp() / 5 * 5;
            windows.put(key, record.value(), start);
            final StringBuilder shown = new StringBuilder();
            try (WindowStoreIterator<String> found = windows.fetch(key, 0L, 10_000L)) {
                found.forEachRemaining(each -> shown.append(each.key).append('=').append(each.value).append(' '));
            }
            shown.append(windows.fetch(key, start));
            shown.append(windows.fetch(key, Math.max(0, start - 20)));
            context.forward(record.withKey(key).withValue(shown.toString()));
        }
    }

    /** Keeps sessions with gaps of three milliseconds, and emits the store's content for a key after each record. */
    private static final class KeepingSessions implements Processor<String, String, String, String> {
        private ProcessorContext<String, String> context;
        private SessionStore<String, String> sessions;

        @Override
        public void init(ProcessorContext<String, String> context) {
            this.context = context;
            sessions = context.getStateStore("sessions");
        }

        @Override
        public void process(Record<String, String> record) {
            final String key = record.key() == null ? "none" : record.key();
            final long time = record.timestamp();
            long start = time;
            long end = time;
            for (final Windowed<String> met : sorted(key, time - 3, time + 3).keySet()) {
                start = Math.min(start, met.window().start());
                end = Math.max(end, met.window().end());
                sessions.remove(met);
            }
            sessions.put(new Windowed<>(key, new SessionWindow(start, end)), record.value() == null ? "-" : record.value());
            final StringBuilder shown = new StringBuilder();
            sorted(key, 0, 10_000).forEach((session, value) -> shown.append(session.window().start()).append('-')
                .append(session.window().end()).append('=').append(value).append(' '));
            context.forward(record.withKey(key).withValue(shown.toString()));
        }

        private Map<Windowed<String>, String> sorted(String key, long firstEnd, long lastStart) {
            final Map<Windowed<String>, String> all = new TreeMap<>(Comparator.comparingLong(each -> each.window().start()));
            try (KeyValueIterator<Windowed<String>, String> found = sessions.findSessions(key, firstEnd, lastStart)) {
                found.forEachRemaining(each -> all.put(each.key, each.value));
            }
            return all;
        }
    }

    /** Values with the number of changes of their key; every third change deletes it. */
    private static final class Counting implements ValueTransformerWithKey<String, String, String> {
        private KeyValueStore<String, Long> changes;

        @Override
        public void init(org.apache.kafka.streams.processor.ProcessorContext context) {
            changes = context.getStateStore("changes");
        }

        @Override
        public String transform(String key, String value) {
            final Long before = changes.get(key);
            final long count = before == null ? 1 : before + 1;
            changes.put(key, count);
            return count % 3 == 0 ? null : value + count;
        }

        @Override
        public void close() {
        }
    }

    private static Materialized<String, String, KeyValueStore<Bytes, byte[]>> history(String topic) {
        return Materialized.<String, String>as(Stores.persistentVersionedKeyValueStore("versioned-" + topic, ms(25)))
            .withKeySerde(TEXT).withValueSerde(TEXT);
    }

    private static KTable<String, String> versioned(StreamsBuilder builder, String topic) {
        return builder.table(topic, history(topic));
    }

    private static KGroupedTable<String, String> byReference(StreamsBuilder builder) {
        return builder.<String, String>table("left", Materialized.with(TEXT, TEXT))
            .groupBy((key, value) -> KeyValue.pair(reference(value), value), Grouped.with(TEXT, TEXT));
    }

    public static void main(String[] arguments) throws Exception {
        final BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
            System.out.flush();
        }
    }

    private static ArrayNode answer(JsonNode question) {
        final StreamsBuilder builder = new StreamsBuilder();
        final String name = question.get("topology").asText();
        TOPOLOGIES.get(name).accept(builder);
        final ArrayNode written = JSON.createArrayNode();
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), settings(name), Instant.ofEpochMilli(0))) {
            final Map<String, TestInputTopic<String, String>> inputs = new LinkedHashMap<>();
            for (final JsonNode record : question.get("records")) {
                inputs.computeIfAbsent(record.get(0).asText(), topic ->
                    driver.createInputTopic(topic, new StringSerializer(), new StringSerializer()))
                    .pipeInput(text(record.get(1)), text(record.get(2)), record.get(3).asLong());
            }
            final TestOutputTopic<byte[], byte[]> output =
                driver.createOutputTopic("out", new ByteArrayDeserializer(), new ByteArrayDeserializer());
            for (final TestRecord<byte[], byte[]> record : output.readRecordsToList()) {
                written.addArray().add(hex(record.key())).add(hex(record.value())).add(record.timestamp());
            }
        }
        return written;
    }

    private static Properties settings(String topology) {
        final Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "topologies");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);  // every change is forwarded
        if (!topology.startsWith("stream")) {  // stores of joins on disk forget by the minute, those in memory by the window
            settings.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG,
                "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers");
        }
        // Look for results of closed windows with every record, not once per second of the wall clock.
        settings.put("__emit.interval.ms.kstreams.windowed.aggregation__", 0L);
        settings.put("__emit.interval.ms.kstreams.outer.join.spurious.results.fix__", 0L);
        return settings;
    }

    private static String text(JsonNode node) {
        return node.isNull() ? null : node.asText();
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? null : HexFormat.of().formatHex(bytes);
    }
}
