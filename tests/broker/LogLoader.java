import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Delayed;
import java.util.concurrent.FutureTask;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.Records;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.checkpoint.CleanShutdownFileHandler;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Loads log directories of one partition as a broker does when it starts (LogManager.loadLogs), reads what a consumer
 * would get, and closes the log as a broker does when it stops. Each line of standard input is a request (JSON: path,
 * config), each line of standard output its answer.
 *
 * <p>Two things differ from a broker: the clock always shows 0, so no producer expires, and removed files are deleted
 * immediately.
 */
public final class LogLoader {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final TopicPartition PARTITION = new TopicPartition("t", 0);
    private static final int FETCH_BYTES = 1 << 20;
    private static final int SECONDS = 20;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // Kafka logs to standard output
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode request = JSON.readTree(line);
            ObjectNode answer;
            try {
                answer = withTimeLimit(() -> load(request));
            } catch (Throwable error) {
                answer = JSON.createObjectNode().put("error", text(error));
            }
            answers.println(JSON.writeValueAsString(answer));
        }
    }

    private static ObjectNode load(JsonNode request) throws Exception {
        File logDir = new File(request.get("path").asText());
        Map<String, String> settings = new HashMap<>();
        request.get("config").fields().forEachRemaining(field -> settings.put(field.getKey(), field.getValue().asText()));
        CleanShutdownFileHandler marker = new CleanShutdownFileHandler(logDir.getPath());
        boolean clean = marker.exists();
        if (clean) {
            marker.delete();
        }
        UnifiedLog log = UnifiedLog.create(
            new File(logDir, PARTITION.toString()),
            new LogConfig(settings),
            checkpoint(logDir, "log-start-offset-checkpoint"),
            checkpoint(logDir, "recovery-point-offset-checkpoint"),
            new ImmediateScheduler(),
            new BrokerTopicStats(),
            new StandingStill(),
            3_600_000,
            new ProducerStateManagerConfig(Integer.MAX_VALUE, false),
            600_000,
            new LogDirFailureChannel(1),
            clean,
            Optional.empty(),
            new ConcurrentHashMap<>(),
            false,
            LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
        ObjectNode answer = JSON.createObjectNode().put("clean", clean);
        answer.put("start", log.logStartOffset()).put("end", log.logEndOffset());
        ArrayNode segments = answer.putArray("segments");
        log.logSegments().forEach(segment -> segments.add(segment.baseOffset()));
        ArrayNode epochs = answer.putArray("epochs");
        log.leaderEpochCache().epochEntries().forEach(entry -> epochs.addArray().add(entry.epoch).add(entry.startOffset));
        consume(log, answer);
        log.close();
        return answer;
    }

    /** Returns the offset in a checkpoint, or 0 if the file cannot be read, as a broker does. */
    private static long checkpoint(File logDir, String name) {
        try {
            return new OffsetCheckpointFile(new File(logDir, name), null).read().getOrDefault(PARTITION, 0L);
        } catch (Exception error) {
            return 0;
        }
    }

    /** Adds the offsets of the records that a consumer gets, and the error that stops it before the end of the log. */
    private static void consume(UnifiedLog log, ObjectNode answer) {
        ArrayNode offsets = answer.putArray("offsets");
        long next = log.logStartOffset();
        try {
            while (next < log.logEndOffset()) {
                long before = next;
                Records fetched = log.read(next, FETCH_BYTES, FetchIsolation.LOG_END, true).records;
                for (RecordBatch batch : copyToMemory(fetched).batches()) {
                    if (batch.magic() >= RecordBatch.MAGIC_VALUE_V2) {
                        batch.ensureValid();
                    }
                    for (Record record : batch) {
                        record.ensureValid();
                        if (record.offset() >= next && !batch.isControlBatch()) {
                            offsets.add(record.offset());
                            next = record.offset() + 1;
                        }
                    }
                    next = Math.max(next, batch.nextOffset());
                }
                if (next == before) {
                    return; // the remaining offsets are a gap: a consumer waits here for the next record
                }
            }
        } catch (Throwable error) {
            answer.put("stopped", text(error));
        }
    }

    private static Records copyToMemory(Records fetched) throws IOException {
        if (!(fetched instanceof FileRecords file)) {
            return fetched;
        }
        ByteBuffer buffer = ByteBuffer.allocate(file.sizeInBytes());
        file.readInto(buffer, 0);
        return MemoryRecords.readableRecords(buffer);
    }

    /** Runs a load with a time limit, because some loads never end. Their threads keep running. */
    private static ObjectNode withTimeLimit(Callable<ObjectNode> work) throws Throwable {
        FutureTask<ObjectNode> task = new FutureTask<>(work);
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
        try {
            return task.get(SECONDS, TimeUnit.SECONDS);
        } catch (TimeoutException error) {
            throw new TimeoutException("not loaded after " + SECONDS + " s");
        } catch (java.util.concurrent.ExecutionException error) {
            throw error.getCause();
        }
    }

    private static String text(Throwable error) {
        String text = error.toString();
        return error.getCause() == null ? text : text + " <- " + error.getCause();
    }

    /** A scheduler that runs single tasks immediately and ignores periodic tasks. */
    private static final class ImmediateScheduler implements Scheduler {
        @Override
        public void startup() {}

        @Override
        public void shutdown() {}

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            if (periodMs < 0) {
                task.run();
            }
            return new Done();
        }

        @Override
        public void resizeThreadPool(int size) {}
    }

    private static final class Done extends FutureTask<Void> implements ScheduledFuture<Void> {
        private Done() {
            super(() -> null);
        }

        @Override
        public long getDelay(TimeUnit unit) {
            return 0;
        }

        @Override
        public int compareTo(Delayed other) {
            return 0;
        }
    }

    private static final class StandingStill implements Time {
        @Override
        public long milliseconds() {
            return 0;
        }

        @Override
        public long nanoseconds() {
            return 0;
        }

        @Override
        public void sleep(long ms) {}

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {}
    }
}
