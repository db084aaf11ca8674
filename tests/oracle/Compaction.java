// Compacts logs with Apache Kafka's own cleaner. A line of input names a folder and the figures of `Case`;
// the answer is where the clean part of the log ends then.

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class Compaction {
    /** Nothing happens later: replaced files stay with the suffix ".deleted". */
    static class NoScheduler implements Scheduler {
        private final ScheduledThreadPoolExecutor executor = new ScheduledThreadPoolExecutor(1);

        public void startup() {}
        public void shutdown() {}
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            return executor.schedule(() -> {}, 1, TimeUnit.DAYS);
        }

        public void resizeThreadPool(int size) {}
    }

    /** Always the same time. */
    record FixedTime(long milliseconds) implements Time {
        public long hiResClockMs() { return milliseconds; }
        public long nanoseconds() { return milliseconds * 1_000_000; }
        public void sleep(long ms) {}
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {}
    }

    static long compact(String[] words) throws Exception {
        File folder = new File(words[0]);
        long firstDirtyOffset = Long.parseLong(words[1]);
        long firstUncleanableOffset = Long.parseLong(words[2]);
        long nowMs = Long.parseLong(words[3]);
        Time time = new FixedTime(nowMs);
        LogConfig config = new LogConfig(Map.of(
            "cleanup.policy", "compact",
            "delete.retention.ms", words[4],
            "internal.segment.bytes", words[5],
            "index.interval.bytes", words[6]));
        UnifiedLog log = UnifiedLog.create(
            folder, config, 0L, 0L, new NoScheduler(), new BrokerTopicStats(), time, Integer.MAX_VALUE,
            new ProducerStateManagerConfig(Integer.MAX_VALUE, false), Integer.MAX_VALUE, new LogDirFailureChannel(1),
            false, Optional.empty());  // not stopped cleanly: the state of producers is read from the log
        Throttler unlimited = new Throttler(Double.MAX_VALUE, 1000, "cleaner-io", "bytes", time);
        Cleaner cleaner = new Cleaner(
            0, new SkimpyOffsetMap(1 << 20), 1 << 16, 1 << 24, 0.9, unlimited, time, partition -> {});
        LogToClean dirty = new LogToClean(log, firstDirtyOffset, firstUncleanableOffset, false);
        long endOffset = cleaner.doClean(dirty, nowMs).getKey();
        log.close();
        return endOffset;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine())
            System.out.println(compact(line.split(" ")));
        System.exit(0);
    }
}
