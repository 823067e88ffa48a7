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
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.StreamsGroupDescription;
import org.apache.kafka.clients.admin.StreamsGroupMemberAssignment;
import org.apache.kafka.clients.admin.StreamsGroupMemberDescription;
import org.apache.kafka.clients.admin.StreamsGroupSubtopologyDescription;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.internals.AsyncKafkaConsumer;
import org.apache.kafka.clients.consumer.internals.StreamsRebalanceData;
import org.apache.kafka.clients.consumer.internals.StreamsRebalanceListener;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Client BOOTSTRAP: executes the requests on standard input (one line of JSON each) and prints the answers. */
public final class Client {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int NODE_ID = 1;
    private static final ByteArraySerializer WRITE = new ByteArraySerializer();
    private static final ByteArrayDeserializer READ = new ByteArrayDeserializer();
    private final String bootstrap;
    private final Admin admin;
    private final Map<String, List<Consumer<byte[], byte[]>>> members = new HashMap<>();

    private Client(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // Kafka's client logs to standard output
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

    private JsonNode answer(JsonNode request) throws Exception {
        return switch (request.get("do").asText()) {
            case "create" -> create(request);
            case "alter" -> alter(request);
            case "configs" -> configs(request);
            case "create_partitions" -> createPartitions(request);
            case "delete" -> delete(request);
            case "send" -> send(request);
            case "consume" -> consume(request);
            case "delete_records" -> deleteRecords(request);
            case "move" -> move(request);
            case "offset_for_time" -> offsetForTime(request);
            case "join" -> join(request);
            case "leave" -> leave(request);
            case "commit_offsets" -> commitOffsets(request);
            case "delete_offsets" -> deleteOffsets(request);
            case "upgrade" -> upgrade(request);
            case "share" -> share(request);
            case "stream" -> stream(request);
            case "describe_streams" -> describeStreams(request);
            case "allow" -> allow(request);
            case "limit" -> limit(request);
            case "set_password" -> setPassword(request);
            default -> throw new IllegalArgumentException(request.toString());
        };
    }

    private JsonNode create(JsonNode request) throws Exception {
        NewTopic topic = new NewTopic(request.get("topic").asText(), request.get("partitions").asInt(), (short) 1);
        admin.createTopics(List.of(topic.configs(strings(request.get("settings"))))).all().get();
        // The broker answers when the partition has a leader. Without a leader it can reject a first batch and then
        // accept the second, which is in flight already: retries of the first would be out of sequence.
        long end = System.nanoTime() + 20_000_000_000L;
        while (true) {
            try {
                admin.listOffsets(Map.of(new TopicPartition(topic.name(), 0), OffsetSpec.latest())).all().get();
                break;
            } catch (ExecutionException error) { // the broker may not know the topic yet
                boolean known = !(error.getCause() instanceof UnknownTopicOrPartitionException);
                if (known || System.nanoTime() > end) throw error;
                Thread.sleep(20);
            }
        }
        return JSON.createObjectNode();
    }

    private JsonNode alter(JsonNode request) throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, request.get("topic").asText());
        List<AlterConfigOp> changes = new ArrayList<>();
        request.get("settings").fields().forEachRemaining(field -> {
            boolean removed = field.getValue().isNull();
            ConfigEntry entry = new ConfigEntry(field.getKey(), removed ? "" : field.getValue().asText());
            changes.add(new AlterConfigOp(entry, removed ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET));
        });
        admin.incrementalAlterConfigs(Map.of(topic, changes)).all().get();
        return JSON.createObjectNode();
    }

    /** Returns the settings of a topic that kafka-configs --describe shows. */
    private JsonNode configs(JsonNode request) throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, request.get("topic").asText());
        ObjectNode settings = JSON.createObjectNode();
        for (ConfigEntry entry : admin.describeConfigs(List.of(topic)).all().get().get(topic).entries()) {
            if (entry.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG) settings.put(entry.name(), entry.value());
        }
        return settings;
    }

    private JsonNode createPartitions(JsonNode request) throws Exception {
        NewPartitions partitions = NewPartitions.increaseTo(request.get("partitions").asInt());
        admin.createPartitions(Map.of(request.get("topic").asText(), partitions)).all().get();
        return JSON.createObjectNode();
    }

    private JsonNode delete(JsonNode request) throws Exception {
        admin.deleteTopics(List.of(request.get("topic").asText())).all().get();
        return JSON.createObjectNode();
    }

    /**
     * Sends `count` records numbered from `first`. The key is "k" + number % `keys`, or null for every 10th number. The
     * value is the number and `value_bytes` of padding, or null for every 7th. The timestamp in ms is the number.
     */
    private JsonNode send(JsonNode request) throws Exception {
        Map<String, Object> settings = new HashMap<>(strings(request.get("settings")));
        settings.put("bootstrap.servers", bootstrap);
        boolean transactional = settings.containsKey("transactional.id");
        String padding = "x".repeat(request.get("value_bytes").asInt());
        String topic = request.get("topic").asText();
        int partition = request.get("partition").asInt();
        long first = request.get("first").asLong();
        long keys = request.get("keys").asLong();
        boolean plain = request.get("plain").asBoolean();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, WRITE, WRITE)) {
            if (transactional) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            for (long i = first; i < first + request.get("count").asLong(); i++) {
                byte[] key = !plain && i % 10 == 0 ? null : utf8("k" + i % keys);
                byte[] value = !plain && i % 7 == 0 ? null : utf8(i + ":" + padding);
                ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, partition, i, key, value);
                if (!plain && i % 3 == 0) {
                    record.headers().add("n", utf8(Long.toString(i))).add("n", null).add("ünï", new byte[0]);
                }
                producer.send(record);
            }
            producer.flush();
            String end = request.get("end").asText();
            endTransaction(producer, (String) settings.get("transactional.id"), end);
            // Closing a producer aborts its transaction, but with a timeout of 0 it stays open.
            if (end.equals("open")) producer.close(Duration.ZERO);
        }
        return JSON.createObjectNode();
    }

    private JsonNode consume(JsonNode request) throws Exception {
        TopicPartition partition = new TopicPartition(request.get("topic").asText(), request.get("partition").asInt());
        ArrayNode rows = JSON.createArrayNode();
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "isolation.level", request.get("isolation").asText(),
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

    private JsonNode deleteRecords(JsonNode request) throws Exception {
        TopicPartition partition = new TopicPartition(request.get("topic").asText(), 0);
        admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(request.get("before").asLong()))).all().get();
        return JSON.createObjectNode();
    }

    /** Moves a partition to another log directory of its broker, and waits until it is there (KIP-113). */
    private JsonNode move(JsonNode request) throws Exception {
        TopicPartitionReplica replica = new TopicPartitionReplica(request.get("topic").asText(), 0, NODE_ID);
        String logDir = request.get("log_dir").asText();
        admin.alterReplicaLogDirs(Map.of(replica, logDir)).all().get();
        while (!logDir.equals(
                admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica).getCurrentReplicaLogDir())) {
            Thread.sleep(5);
        }
        return JSON.createObjectNode();
    }

    private JsonNode offsetForTime(JsonNode request) throws Exception {
        TopicPartition partition = new TopicPartition(request.get("topic").asText(), 0);
        OffsetSpec time = OffsetSpec.forTimestamp(request.get("timestamp").asLong());
        long offset = admin.listOffsets(Map.of(partition, time)).partitionResult(partition).get().offset();
        return JSON.createObjectNode().put("offset", offset);
    }

    /**
     * Adds a consumer to a group, and waits until each of the group's consumers has partitions. Then they read at least
     * `count` records altogether, and commit their positions.
     */
    private JsonNode join(JsonNode request) throws Exception {
        String group = request.get("group").asText();
        Map<String, Object> settings = new HashMap<>(strings(request.get("settings")));
        settings.putAll(Map.of("bootstrap.servers", bootstrap, "group.id", group, "auto.offset.reset", "earliest",
            "enable.auto.commit", "false", "max.poll.records", "10"));
        KafkaConsumer<byte[], byte[]> joining = new KafkaConsumer<>(settings, READ, READ);
        List<Consumer<byte[], byte[]>> consumers = members.computeIfAbsent(group, name -> new ArrayList<>());
        consumers.add(joining);
        joining.subscribe(List.of(request.get("topic").asText()));
        long count = request.get("count").asLong();
        long end = System.nanoTime() + 60_000_000_000L;
        while (count > 0 || consumers.stream().anyMatch(consumer -> consumer.assignment().isEmpty())) {
            for (Consumer<byte[], byte[]> consumer : consumers) count -= consumer.poll(Duration.ofMillis(50)).count();
            if (System.nanoTime() > end) throw new IllegalStateException("the group " + group + " does not become stable");
        }
        for (Consumer<byte[], byte[]> consumer : consumers) consumer.commitSync();
        return JSON.createObjectNode();
    }

    /** Closes the consumers of a group. */
    private JsonNode leave(JsonNode request) {
        for (Consumer<byte[], byte[]> consumer : members.remove(request.get("group").asText())) consumer.close();
        return JSON.createObjectNode();
    }

    /** Commits an offset of a group without members, with a transaction if there is a `transactional_id`. */
    private JsonNode commitOffsets(JsonNode request) throws Exception {
        String group = request.get("group").asText();
        TopicPartition partition = new TopicPartition(request.get("topic").asText(), request.get("partition").asInt());
        OffsetAndMetadata offset = new OffsetAndMetadata(request.get("offset").asLong(), request.get("metadata").asText());
        if (request.get("transactional_id").isNull()) {
            admin.alterConsumerGroupOffsets(group, Map.of(partition, offset)).all().get();
            return JSON.createObjectNode();
        }
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "transaction.timeout.ms", "900000",
            "transactional.id", request.get("transactional_id").asText());
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, WRITE, WRITE);
        producer.initTransactions();
        producer.beginTransaction();
        producer.sendOffsetsToTransaction(Map.of(partition, offset), new ConsumerGroupMetadata(group));
        endTransaction(producer, request.get("transactional_id").asText(), request.get("end").asText());
        producer.close(Duration.ZERO);
        return JSON.createObjectNode();
    }

    /**
     * Commits or aborts a transaction, if `end` says so, and waits until its markers are written.
     *
     * The broker answers before it writes them, and a consumer with read_committed would miss the records.
     */
    private void endTransaction(KafkaProducer<byte[], byte[]> producer, String id, String end) throws Exception {
        boolean commit = end.equals("commit");
        if (commit) producer.commitTransaction();
        else if (end.equals("abort")) producer.abortTransaction();
        else return;
        TransactionState expected = commit ? TransactionState.COMPLETE_COMMIT : TransactionState.COMPLETE_ABORT;
        long deadline = System.nanoTime() + 20_000_000_000L;
        while (transactionState(id) != expected) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("transaction " + id + " is " + transactionState(id) + ", expected " + expected);
            }
            Thread.sleep(5);
        }
    }

    private TransactionState transactionState(String id) throws Exception {
        return admin.describeTransactions(List.of(id)).description(id).get().state();
    }

    /** Sets the level of a feature. */
    private JsonNode upgrade(JsonNode request) throws Exception {
        FeatureUpdate update = new FeatureUpdate((short) request.get("level").asInt(), FeatureUpdate.UpgradeType.UPGRADE);
        admin.updateFeatures(Map.of(request.get("feature").asText(), update), new UpdateFeaturesOptions()).all().get();
        return JSON.createObjectNode();
    }

    private JsonNode allow(JsonNode request) throws Exception {
        ResourcePattern topics = new ResourcePattern(ResourceType.TOPIC, request.get("prefix").asText(), PatternType.PREFIXED);
        AclOperation operation = AclOperation.fromString(request.get("operation").asText());
        String principal = request.get("principal").asText();
        AccessControlEntry entry = new AccessControlEntry(principal, "*", operation, AclPermissionType.ALLOW);
        admin.createAcls(List.of(new AclBinding(topics, entry))).all().get();
        return JSON.createObjectNode();
    }

    private JsonNode limit(JsonNode request) throws Exception {
        Map<String, String> names = new HashMap<>();
        names.put(ClientQuotaEntity.USER, request.get("user").asText());
        names.put(ClientQuotaEntity.CLIENT_ID, request.get("client_id").isNull() ? null : request.get("client_id").asText());
        ClientQuotaAlteration.Op change =
            new ClientQuotaAlteration.Op(request.get("quota").asText(), request.get("value").asDouble());
        ClientQuotaEntity entity = new ClientQuotaEntity(names);
        admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(change)))).all().get();
        return JSON.createObjectNode();
    }

    private JsonNode setPassword(JsonNode request) throws Exception {
        ScramCredentialInfo credential = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192);
        String user = request.get("user").asText();
        admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(user, credential, "secret"))).all().get();
        return JSON.createObjectNode();
    }

    /**
     * Reads at least `count` records with a consumer of a share group, and returns how many. It accepts every third, releases
     * the next, and so on. With `accepts_all` it accepts all that it gets, also after `count` records.
     */
    private JsonNode share(JsonNode request) throws Exception {
        String group = request.get("group").asText();
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        ConfigEntry earliest = new ConfigEntry("share.auto.offset.reset", "earliest");
        admin.incrementalAlterConfigs(Map.of(resource, List.of(new AlterConfigOp(earliest, AlterConfigOp.OpType.SET)))).all().get();
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "group.id", group, "max.poll.records", "10",
            "share.acknowledgement.mode", "explicit");
        long count = request.get("count").asLong();
        boolean acceptsAll = request.get("accepts_all").asBoolean();
        AcknowledgeType[] kinds = {AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT};
        long read = 0;
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(settings, READ, READ)) {
            consumer.subscribe(List.of(request.get("topic").asText()));
            for (boolean isOver = count == 0; !isOver; ) {
                long before = read;
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    consumer.acknowledge(record, acceptsAll ? AcknowledgeType.ACCEPT : kinds[(int) (record.offset() % 3)]);
                    read++;
                }
                consumer.commitSync();
                isOver = read >= count && (read == before || !acceptsAll);
            }
        }
        return JSON.createObjectNode().put("count", read);
    }

    /**
     * Adds a member to a streams group (KIP-1071), and waits until the group is stable. The group reads `topic`, repartitions
     * it, and has a store. A second member has a standby copy of it.
     */
    private JsonNode stream(JsonNode request) throws Exception {
        String group = request.get("group").asText();
        String topic = request.get("topic").asText();
        var repartition = new StreamsRebalanceData.TopicInfo(Optional.of(2), Optional.of((short) 1), Map.of());
        var changelog = new StreamsRebalanceData.TopicInfo(Optional.empty(), Optional.of((short) 1), Map.of("cleanup.policy", "compact"));
        StreamsRebalanceData data = new StreamsRebalanceData(UUID.randomUUID(),
            Optional.of(new StreamsRebalanceData.HostInfo("localhost", 9)), Map.of(
                "0", new StreamsRebalanceData.Subtopology(Set.of(topic), Set.of(group + "-repartition"), Map.of(), Map.of(), List.of()),
                "1", new StreamsRebalanceData.Subtopology(Set.of(), Set.of(), Map.of(group + "-repartition", repartition),
                    Map.of(group + "-changelog", changelog), List.of())), Map.of("zone", "a"));
        AsyncKafkaConsumer<byte[], byte[]> joining = new AsyncKafkaConsumer<>(new ConsumerConfig(Map.of("bootstrap.servers", bootstrap,
            "group.id", group, "client.id", request.get("client_id").asText(), "group.protocol", "consumer", "enable.auto.commit", "false",
            "key.deserializer", ByteArrayDeserializer.class, "value.deserializer", ByteArrayDeserializer.class)), READ, READ, Optional.of(data));
        joining.subscribe(Set.of(topic, group + "-repartition"), new StreamsRebalanceListener() {
            @Override public void onTasksRevoked(Set<StreamsRebalanceData.TaskId> tasks) { }
            @Override public void onTasksAssigned(StreamsRebalanceData.Assignment assignment) {
                data.setReconciledAssignment(assignment);
            }
            @Override public void onAllTasksLost() { }
        });
        List<Consumer<byte[], byte[]>> consumers = members.computeIfAbsent(group, name -> new ArrayList<>());
        consumers.add(joining);
        long end = System.nanoTime() + 60_000_000_000L;
        do {
            for (Consumer<byte[], byte[]> consumer : consumers) consumer.poll(Duration.ofMillis(50));
            if (System.nanoTime() > end) throw new IllegalStateException("not stable: " + description(group));
        } while (!isStable(group, consumers.size()));
        return JSON.createObjectNode();
    }

    private boolean isStable(String group, int size) throws Exception {
        try {
            StreamsGroupDescription description = description(group);
            return description.groupState() == GroupState.STABLE && description.members().size() == size;
        } catch (ExecutionException error) { // the group is not there yet
            return false;
        }
    }

    private StreamsGroupDescription description(String group) throws Exception {
        return admin.describeStreamsGroups(List.of(group)).all().get().get(group);
    }

    /** Returns what the broker says about a streams group. */
    private JsonNode describeStreams(JsonNode request) throws Exception {
        StreamsGroupDescription group = description(request.get("group").asText());
        ObjectNode answer = JSON.createObjectNode().put("state", group.groupState().toString()).put("epoch", group.groupEpoch())
            .put("targetAssignmentEpoch", group.targetAssignmentEpoch());
        ArrayNode members = answer.putArray("members");
        for (StreamsGroupMemberDescription member : group.members()) {
            ObjectNode node = members.addObject().put("memberId", member.memberId()).put("memberEpoch", member.memberEpoch())
                .put("groupInstanceId", member.instanceId().orElse(null)).put("rackId", member.rackId().orElse(null))
                .put("clientId", member.clientId()).put("clientHost", member.clientHost()).put("processId", member.processId());
            node.set("assignment", tasks(member.assignment()));
            node.set("targetAssignment", tasks(member.targetAssignment()));
        }
        ArrayNode subtopologies = answer.putArray("subtopologies");
        for (StreamsGroupSubtopologyDescription part : group.subtopologies()) {
            ObjectNode node = subtopologies.addObject().put("subtopologyId", part.subtopologyId());
            node.set("sourceTopics", JSON.valueToTree(part.sourceTopics()));
            node.set("repartitionSourceTopics", JSON.valueToTree(part.repartitionSourceTopics().keySet()));
            node.set("repartitionSinkTopics", JSON.valueToTree(part.repartitionSinkTopics()));
            node.set("stateChangelogTopics", JSON.valueToTree(part.stateChangelogTopics().keySet()));
        }
        return answer;
    }

    /** Returns tasks as [[type, subtopology, partitions], ...]. */
    private static ArrayNode tasks(StreamsGroupMemberAssignment assignment) {
        ArrayNode tasks = JSON.createArrayNode();
        Map.of("active", assignment.activeTasks(), "standby", assignment.standbyTasks(), "warmup", assignment.warmupTasks())
            .forEach((type, ids) -> ids.forEach(task -> tasks.addArray().add(type).add(task.subtopologyId())
                .add((JsonNode) JSON.valueToTree(task.partitions()))));
        return tasks;
    }

    private JsonNode deleteOffsets(JsonNode request) throws Exception {
        TopicPartition partition = new TopicPartition(request.get("topic").asText(), request.get("partition").asInt());
        admin.deleteConsumerGroupOffsets(request.get("group").asText(), Set.of(partition)).all().get();
        return JSON.createObjectNode();
    }

    private static Map<String, String> strings(JsonNode object) {
        Map<String, String> map = new HashMap<>();
        object.fields().forEachRemaining(field -> map.put(field.getKey(), field.getValue().asText()));
        return map;
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Returns bytes as text with one character per byte. */
    private static String latin1(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.ISO_8859_1);
    }
}
