import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * CorpusWriter BOOTSTRAP. For each line of standard input, creates and fills a topic and prints the seconds it took:
 * TOPIC CODEC RECORDS PARTITIONS VALUE_BYTES BATCH_BYTES SEGMENT_BYTES DISTINCT_KEYS VALUES.
 *
 * Every run sends the same records. Keys have 16 bytes. With DISTINCT_KEYS = 0 all keys differ; otherwise they are drawn
 * from that many keys, and all records of a key go to the same partition. Values look like short JSON, and about half of
 * their bytes are random. If VALUES is not "-", it is a file of values, each preceded by its length (4 bytes), which are
 * sent repeatedly.
 */
public final class CorpusWriter {
    private static final long FIRST_TIMESTAMP_MS = 1_767_225_600_000L; // 2026-01-01T00:00:00Z
    private static final long LEADERS_NANOS = TimeUnit.SECONDS.toNanos(60);
    private static final byte[] LETTERS =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".getBytes();
    private static final String[] STATES = {"created", "paid", "shipped", "delivered", "returned", "cancelled"};

    public static void main(String[] arguments) throws Exception {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            long started = System.nanoTime();
            fill(arguments[0], words[0], words[1], Long.parseLong(words[2]), Integer.parseInt(words[3]),
                Integer.parseInt(words[4]), Integer.parseInt(words[5]), words[6], Long.parseLong(words[7]), words[8]);
            System.out.println((System.nanoTime() - started) / 1e9);
        }
    }

    private static void fill(String bootstrap, String topic, String codec, long records, int partitions,
                             int valueBytes, int batchBytes, String segmentBytes, long distinctKeys, String values) throws Exception {
        List<byte[]> valuesOfFile = values.equals("-") ? null : read(Path.of(values));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            NewTopic newTopic = new NewTopic(topic, partitions, (short) 1).configs(Map.of(
                "segment.bytes", segmentBytes, "retention.ms", "-1", "max.message.bytes", "8388608"));
            if (admin.listTopics().names().get().contains(topic)) { // from an earlier run that was interrupted
                admin.deleteTopics(List.of(topic)).all().get();
            }
            admin.createTopics(List.of(newTopic)).all().get();
            waitForLeaders(admin, topic, partitions);
        }
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("compression.type", codec);
        settings.put("batch.size", Integer.toString(batchBytes));
        settings.put("max.request.size", "8388608");
        settings.put("buffer.memory", "134217728");
        settings.put("linger.ms", "20");
        AtomicReference<Exception> failure = new AtomicReference<>();
        ByteArraySerializer asIs = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, asIs, asIs)) {
            for (long i = 0; i < records; i++) {
                long id = Long.remainderUnsigned(mix(7, i), distinctKeys > 0 ? distinctKeys : 1_000_000_000_000L);
                int partition = (int) ((distinctKeys > 0 ? id : i) % partitions);
                byte[] value =
                    valuesOfFile == null ? value(i, valueBytes) : valuesOfFile.get((int) (i % valuesOfFile.size()));
                producer.send(
                    new ProducerRecord<>(topic, partition, FIRST_TIMESTAMP_MS + i / 10, key(id), value),
                    (metadata, error) -> { if (error != null) failure.compareAndSet(null, error); });
            }
        }
        if (failure.get() != null) throw failure.get();
    }

    /**
     * Waits until each partition has a leader. Without a leader, the broker can reject a first batch and then accept the
     * second, which is in flight already: retries of the first would be out of sequence.
     */
    private static void waitForLeaders(Admin admin, String topic, int partitions) throws Exception {
        Map<TopicPartition, OffsetSpec> all = new HashMap<>();
        for (int i = 0; i < partitions; i++) all.put(new TopicPartition(topic, i), OffsetSpec.latest());
        long deadline = System.nanoTime() + LEADERS_NANOS;
        while (true) {
            try {
                admin.listOffsets(all).all().get(); // the broker answers when each partition has a leader
                return;
            } catch (ExecutionException error) {
                // The controller has created the topic, but the broker has not read that yet.
                boolean isNew = error.getCause() instanceof UnknownTopicOrPartitionException;
                if (!isNew || System.nanoTime() > deadline) throw error;
                Thread.sleep(20);
            }
        }
    }

    private static List<byte[]> read(Path file) throws Exception {
        List<byte[]> values = new ArrayList<>();
        for (ByteBuffer content = ByteBuffer.wrap(Files.readAllBytes(file)); content.hasRemaining(); ) {
            byte[] value = new byte[content.getInt()];
            content.get(value);
            values.add(value);
        }
        return values;
    }

    /** Returns "key-" and twelve digits. */
    private static byte[] key(long id) {
        byte[] key = new byte[16];
        text(key, 0, "key-");
        for (int at = 15; at >= 4; at--, id /= 10) key[at] = (byte) ('0' + id % 10);
        return key;
    }

    private static byte[] value(long i, int bytes) {
        byte[] value = new byte[bytes];
        int at = 0;
        for (long part = 0; at < bytes; part++) {
            long n = i * 31 + part;
            at = text(value, at, "{\"user\":\"");
            at = noise(value, at, 14, n * 4);
            at = text(value, at, "\",\"state\":\"" + STATES[(int) Long.remainderUnsigned(mix(42, n), STATES.length)]);
            at = text(value, at, "\",\"item\":\"");
            at = noise(value, at, 14, n * 4 + 2);
            at = text(value, at, "\",\"region\":\"eu-west-1\"}\n");
        }
        return value;
    }

    private static int text(byte[] into, int at, String text) {
        for (int j = 0; j < text.length() && at < into.length; j++) into[at++] = (byte) text.charAt(j);
        return at;
    }

    private static int noise(byte[] into, int at, int count, long seed) {
        long bits = 0;
        for (int j = 0; j < count && at < into.length; j++) {
            if (j % 10 == 0) bits = mix(seed, j);
            into[at++] = LETTERS[(int) (bits & 63)];
            bits >>>= 6;
        }
        return at;
    }

    /** Returns the i-th number of the splitmix64 stream `seed`. */
    private static long mix(long seed, long i) {
        long z = seed + i * 0x9E3779B97F4A7C15L;
        z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
        z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
        return z ^ (z >>> 31);
    }
}
