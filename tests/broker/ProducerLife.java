package org.apache.kafka.clients.producer;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.ApiVersions;
import org.apache.kafka.clients.KafkaClient;
import org.apache.kafka.clients.LeastLoadedNode;
import org.apache.kafka.clients.producer.internals.ProducerInterceptors;
import org.apache.kafka.clients.producer.internals.ProducerMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.internals.ClusterResourceListeners;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponsePartition;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponseTopic;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;

/**
 * Kafka's producer with a broker that never accepts a request. Reads the names of scenarios, one on each line, and prints what
 * each call of the scenario did: [exception, message], or [].
 */
public final class ProducerLife {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final byte[] VALUE = new byte[10];

    private interface Call {
        void run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine())
            System.out.println(JSON.writeValueAsString(run(line)));
    }

    private static ArrayNode run(String scenario) throws Exception {
        ArrayNode answers = JSON.createArrayNode();
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", "localhost:1", "enable.idempotence", "false",
            "linger.ms", 60_000, "delivery.timeout.ms", 120_000, "max.block.ms", 50));
        if (scenario.contains("callback"))
            settings.putAll(Map.of("linger.ms", 0, "request.timeout.ms", 50, "delivery.timeout.ms", 50));
        if (scenario.equals("full buffer"))
            settings.putAll(Map.of("buffer.memory", 300L, "batch.size", 300));
        KafkaProducer<byte[], byte[]> producer = producer(settings);
        switch (scenario) {
            case "after close" -> {
                note(answers, producer::close);
                note(answers, producer::close);
                note(answers, () -> producer.send(record(null, null, VALUE)));
                note(answers, producer::flush);
                note(answers, producer::initTransactions);
            }
            case "negative timeout" -> note(answers, () -> producer.close(Duration.ofMillis(-1)));
            case "forced close" -> {
                var sent = List.of(producer.send(record(null, null, VALUE)), producer.send(record(null, null, VALUE)));
                note(answers, () -> producer.close(Duration.ZERO));
                sent.forEach(future -> note(answers, future::get));
            }
            case "close in a callback", "flush in a callback" -> {
                CompletableFuture<Void> inside = new CompletableFuture<>();
                var sent = producer.send(record(null, null, VALUE), (metadata, error) -> {
                    note(answers, scenario.startsWith("close") ? producer::close : producer::flush);
                    inside.complete(null);
                });
                inside.get();
                note(answers, sent::get);
                note(answers, () -> producer.send(record(null, null, VALUE)));
            }
            case "full buffer" -> {
                producer.send(record(null, null, new byte[100]));
                note(answers, () -> producer.send(record(null, null, new byte[200])).get());
                note(answers, () -> producer.send(record(null, null, new byte[300])).get());
            }
            case "invalid records" -> {
                note(answers, () -> producer.send(record(-1, null, VALUE)));
                note(answers, () -> producer.send(record(null, -1L, VALUE)));
                note(answers, () -> producer.send(record(5, null, VALUE)).get());
                note(answers, () -> producer.send(record(null, null, new byte[2_000_000])).get());
                note(answers, () -> producer.send(new ProducerRecord<>("a/b", VALUE)).get());
            }
            case "no transactional id" -> {
                note(answers, producer::initTransactions);
                note(answers, producer::beginTransaction);
                note(answers, producer::commitTransaction);
            }
            default -> throw new IllegalArgumentException(scenario);
        }
        producer.close(Duration.ZERO);
        return answers;
    }

    private static ProducerRecord<byte[], byte[]> record(Integer partition, Long timestamp, byte[] value) {
        return new ProducerRecord<>("t", partition, timestamp, null, value);
    }

    private static void note(ArrayNode answers, Call call) {
        ArrayNode answer = answers.addArray();
        try {
            call.run();
        } catch (Exception error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            answer.add(cause.getClass().getSimpleName()).add(cause.getMessage());
        }
    }

    private static KafkaProducer<byte[], byte[]> producer(Map<String, Object> settings) {
        Time time = Time.SYSTEM;
        ProducerMetadata metadata = new ProducerMetadata(10, 10, 600_000, 600_000, new LogContext(),
            new ClusterResourceListeners(), time);
        metadata.add("t", time.milliseconds());
        MetadataResponseTopic topic = new MetadataResponseTopic().setName("t").setTopicId(Uuid.ONE_UUID).setPartitions(List.of(
            new MetadataResponsePartition().setLeaderId(0).setLeaderEpoch(0).setReplicaNodes(List.of(0)).setIsrNodes(List.of(0))));
        metadata.updateWithCurrentRequestVersion(MetadataResponse.prepareResponse(true, 0, List.of(new Node(0, "localhost", 1)),
            "cluster", 0, List.of(topic), Integer.MIN_VALUE), false, time.milliseconds());
        ByteArraySerializer serializer = new ByteArraySerializer();
        ProducerConfig config = new ProducerConfig(ProducerConfig.appendSerializerToConfig(settings, serializer, serializer));
        return new KafkaProducer<>(config, serializer, serializer, metadata, unreachable(),
            new ProducerInterceptors<>(List.of(), null), new ApiVersions(), time);
    }

    /** Returns a client whose nodes never become ready. */
    private static KafkaClient unreachable() {
        return (KafkaClient) Proxy.newProxyInstance(KafkaClient.class.getClassLoader(), new Class<?>[] {KafkaClient.class},
            (proxy, method, arguments) -> switch (method.getName()) {
                case "poll" -> {
                    Thread.sleep(1);
                    yield List.of();
                }
                case "leastLoadedNode" -> new LeastLoadedNode(null, false);
                case "active" -> true;
                default -> method.getReturnType() == boolean.class ? (Object) false
                    : method.getReturnType() == long.class ? (Object) 1L
                    : method.getReturnType() == int.class ? (Object) 0 : null;
            });
    }
}
