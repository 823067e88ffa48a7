import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Client BOOTSTRAP: does what each line of standard input asks (JSON) and answers with one line (JSON). */
public final class Client {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final ByteArraySerializer WRITE = new ByteArraySerializer();
    private static final ByteArrayDeserializer READ = new ByteArrayDeserializer();
    private final String bootstrap;
    private final Admin admin;

    private Client(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // where Kafka's client logs to
        Client client = new Client(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode answer;
            try {
                answer = client.answer(JSON.readTree(line));
            } catch (Exception error) {
                answer = JSON.createObjectNode().put("error", error.toString());
            }
            answers.println(JSON.writeValueAsString(answer));
        }
    }

    private JsonNode answer(JsonNode asked) throws Exception {
        return switch (asked.get("do").asText()) {
            case "create" -> create(asked);
            case "alter" -> alter(asked);
            case "configs" -> configs(asked);
            case "delete" -> delete(asked);
            case "send" -> send(asked);
            case "consume" -> consume(asked);
            case "delete_records" -> deleteRecords(asked);
            case "offset_for_time" -> offsetForTime(asked);
            default -> throw new IllegalArgumentException(asked.toString());
        };
    }

    private JsonNode create(JsonNode asked) throws Exception {
        NewTopic topic = new NewTopic(asked.get("topic").asText(), asked.get("partitions").asInt(), (short) 1);
        admin.createTopics(List.of(topic.configs(strings(asked.get("settings"))))).all().get();
        // Answered once the partition has its leader. Sent to before, a first batch can be refused and the second
        // one, in flight, be taken: the first would then be out of sequence for ever.
        long end = System.nanoTime() + 20_000_000_000L;
        while (true) {
            try {
                admin.listOffsets(Map.of(new TopicPartition(topic.name(), 0), OffsetSpec.latest())).all().get();
                break;
            } catch (ExecutionException error) { // the broker may not know it yet
                boolean known = !(error.getCause() instanceof UnknownTopicOrPartitionException);
                if (known || System.nanoTime() > end) throw error;
                Thread.sleep(20);
            }
        }
        return JSON.createObjectNode();
    }

    private JsonNode alter(JsonNode asked) throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, asked.get("topic").asText());
        List<AlterConfigOp> changes = new ArrayList<>();
        asked.get("settings").fields().forEachRemaining(field -> {
            boolean removed = field.getValue().isNull();
            ConfigEntry entry = new ConfigEntry(field.getKey(), removed ? "" : field.getValue().asText());
            changes.add(new AlterConfigOp(entry, removed ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET));
        });
        admin.incrementalAlterConfigs(Map.of(topic, changes)).all().get();
        return JSON.createObjectNode();
    }

    /** What is set for a topic, as kafka-configs --describe shows it. */
    private JsonNode configs(JsonNode asked) throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, asked.get("topic").asText());
        ObjectNode found = JSON.createObjectNode();
        for (ConfigEntry entry : admin.describeConfigs(List.of(topic)).all().get().get(topic).entries()) {
            if (entry.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG) found.put(entry.name(), entry.value());
        }
        return found;
    }

    private JsonNode delete(JsonNode asked) throws Exception {
        admin.deleteTopics(List.of(asked.get("topic").asText())).all().get();
        return JSON.createObjectNode();
    }

    /**
     * Sends `count` records numbered from `first`: key "k" + number % `keys` (every 10th number: no key), value the
     * number and `value_bytes` of padding (every 7th number: none at all), timestamp the number, in ms.
     */
    private JsonNode send(JsonNode asked) throws Exception {
        Map<String, Object> settings = new HashMap<>(strings(asked.get("settings")));
        settings.put("bootstrap.servers", bootstrap);
        boolean transactional = settings.containsKey("transactional.id");
        String padding = "x".repeat(asked.get("value_bytes").asInt());
        String topic = asked.get("topic").asText();
        long first = asked.get("first").asLong();
        long keys = asked.get("keys").asLong();
        boolean plain = asked.get("plain").asBoolean();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, WRITE, WRITE)) {
            if (transactional) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            for (long i = first; i < first + asked.get("count").asLong(); i++) {
                byte[] key = !plain && i % 10 == 0 ? null : utf8("k" + i % keys);
                byte[] value = !plain && i % 7 == 0 ? null : utf8(i + ":" + padding);
                ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, 0, i, key, value);
                if (!plain && i % 3 == 0) {
                    record.headers().add("n", utf8(Long.toString(i))).add("n", null).add("ünï", new byte[0]);
                }
                producer.send(record);
            }
            producer.flush();
            switch (asked.get("end").asText()) {
                case "commit" -> producer.commitTransaction();
                case "abort" -> producer.abortTransaction();
                default -> { }
            }
            // a producer that is closed aborts what is open; one that is closed at once leaves it open
            if (asked.get("end").asText().equals("open")) producer.close(Duration.ZERO);
        }
        return JSON.createObjectNode();
    }

    private JsonNode consume(JsonNode asked) throws Exception {
        TopicPartition partition = new TopicPartition(asked.get("topic").asText(), asked.get("partition").asInt());
        ArrayNode rows = JSON.createArrayNode();
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "isolation.level", asked.get("isolation").asText(),
            "fetch.max.wait.ms", "20", "max.poll.records", "100000", "max.partition.fetch.bytes", "16777216");
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, READ, READ)) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    rows.add(row(record));
                }
            }
            ObjectNode answer = JSON.createObjectNode();
            answer.put("start", consumer.beginningOffsets(List.of(partition)).get(partition));
            answer.put("end", end);
            answer.set("rows", rows);
            return answer;
        }
    }

    private static ArrayNode row(ConsumerRecord<byte[], byte[]> record) {
        ArrayNode headers = JSON.createArrayNode();
        for (Header header : record.headers()) {
            headers.add(JSON.createArrayNode().add(header.key()).add(latin1(header.value())));
        }
        return JSON.createArrayNode().add(record.offset()).add(latin1(record.key())).add(latin1(record.value()))
            .add(record.timestamp()).add(record.timestampType().id).add(headers);
    }

    private JsonNode deleteRecords(JsonNode asked) throws Exception {
        TopicPartition partition = new TopicPartition(asked.get("topic").asText(), 0);
        admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(asked.get("before").asLong()))).all().get();
        return JSON.createObjectNode();
    }

    private JsonNode offsetForTime(JsonNode asked) throws Exception {
        TopicPartition partition = new TopicPartition(asked.get("topic").asText(), 0);
        OffsetSpec time = OffsetSpec.forTimestamp(asked.get("timestamp").asLong());
        long offset = admin.listOffsets(Map.of(partition, time)).partitionResult(partition).get().offset();
        return JSON.createObjectNode().put("offset", offset);
    }

    private static Map<String, String> strings(JsonNode object) {
        Map<String, String> map = new HashMap<>();
        object.fields().forEachRemaining(field -> map.put(field.getKey(), field.getValue().asText()));
        return map;
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Any bytes as text, one character a byte. */
    private static String latin1(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.ISO_8859_1);
    }
}
