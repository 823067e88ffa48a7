package org.apache.kafka.clients.producer.internals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.kafka.clients.MetadataSnapshot;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.CompressionRatioEstimator;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.requests.MetadataResponse.PartitionMetadata;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;

/**
 * Drives the accumulator of Kafka's producer. Reads requests (one line of JSON each: settings and steps) and prints what each
 * step returned.
 */
public final class Accumulator {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String TOPIC = "t";
    private static final Node NODE = new Node(0, "host", 9092);

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine())
            System.out.println(JSON.writeValueAsString(run(JSON.readTree(line))));
    }

    private static ArrayNode run(JsonNode request) throws Exception {
        CompressionType codec = CompressionType.forName(request.get("compression").asText());
        CompressionRatioEstimator.setEstimation(TOPIC, codec, (float) request.get("ratio").asDouble());
        int batchSize = request.get("batch_size").asInt();
        Deque<Integer> draws = new ArrayDeque<>();
        request.get("draws").forEach(draw -> draws.add(draw.asInt()));
        StandingTime time = new StandingTime();
        Metrics metrics = new Metrics();
        BufferPool pool = new BufferPool(1 << 25, batchSize, metrics, time, "group");
        RecordAccumulator accumulator = new RecordAccumulator(new LogContext(), batchSize, Compression.of(codec).build(),
            request.get("linger_ms").asInt(), 100, 100, request.get("delivery_timeout_ms").asInt(),
            new RecordAccumulator.PartitionerConfig(true, 0), metrics, "group", time, null, pool) {
            @Override
            BuiltInPartitioner createBuiltInPartitioner(LogContext context, String topic, int size) {
                return new BuiltInPartitioner(context, topic, size) {
                    @Override
                    int randomPartition() {
                        return draws.isEmpty() ? 0 : draws.poll();
                    }
                };
            }
        };
        MetadataSnapshot metadata = metadata(request.get("partitions").asInt());
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode step : request.get("steps")) {
            ArrayNode answer = answers.addArray();
            switch (step.get(0).asText()) {
                case "append" -> append(accumulator, step, time.now, metadata, answer);
                case "advance" -> time.now += step.get(1).asLong();
                case "order" -> metadata.cluster().availablePartitionsForTopic(TOPIC)
                    .forEach(partition -> answer.add(partition.partition()));
                case "flush" -> accumulator.beginFlush();
                case "ready" -> {
                    RecordAccumulator.ReadyCheckResult result = accumulator.ready(metadata, time.now);
                    answer.add(!result.readyNodes.isEmpty()).add(result.nextReadyCheckDelayMs);
                }
                case "expired" -> {
                    for (ProducerBatch batch : accumulator.expiredBatches(time.now))
                        answer.addArray().add(batch.topicPartition.partition()).add(batch.recordCount);
                }
                case "drain" -> {
                    int max = step.get(1).asInt();
                    for (ProducerBatch batch : accumulator.drain(metadata, Set.of(NODE), max, time.now).get(0))
                        answer.addArray().add(batch.topicPartition.partition()).add(batch.recordCount)
                            .add(batch.records().sizeInBytes());
                }
                default -> throw new IllegalArgumentException(step.toString());
            }
        }
        return answers;
    }

    private static void append(
        RecordAccumulator accumulator, JsonNode step, long now, MetadataSnapshot metadata, ArrayNode answer
    ) throws Exception {
        int keyBytes = step.get(3).asInt();
        int[] chosen = new int[1];
        RecordAccumulator.AppendCallbacks callbacks = new RecordAccumulator.AppendCallbacks() {
            @Override
            public void setPartition(int partition) {
                chosen[0] = partition;
            }

            @Override
            public void onCompletion(RecordMetadata record, Exception exception) {}
        };
        RecordAccumulator.RecordAppendResult result = accumulator.append(TOPIC, step.get(1).asInt(), now,
            keyBytes < 0 ? null : new byte[keyBytes], new byte[step.get(2).asInt()], new Header[0], callbacks, 0, now,
            metadata.cluster());
        answer.add(chosen[0]).add(result.newBatchCreated);
    }

    private static MetadataSnapshot metadata(int count) {
        List<PartitionMetadata> partitions = new ArrayList<>();
        for (int partition = 0; partition < count; partition++)
            partitions.add(new PartitionMetadata(Errors.NONE, new TopicPartition(TOPIC, partition), Optional.of(0),
                Optional.empty(), List.of(0), List.of(0), List.of()));
        return new MetadataSnapshot(null, Map.of(0, NODE), partitions, Set.of(), Set.of(), Set.of(), null, Map.of());
    }

    /** A clock that moves when a step says so. */
    private static final class StandingTime implements Time {
        long now = 1_000_000;

        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return now * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            now += ms;
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }
}
