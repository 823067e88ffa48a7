import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.AbstractRecords;
import org.apache.kafka.common.record.CompressionRatioEstimator;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.ByteBufferOutputStream;
import org.apache.kafka.common.utils.Utils;

/** Writes and reads batches with Kafka's own classes. Reads requests (one line of JSON each) and prints the answers. */
public final class Batches {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode request = JSON.readTree(line);
            System.out.println(JSON.writeValueAsString(request.has("records") ? write(request) : read(request)));
        }
    }

    /** Fills one batch after the other until there is no room left, as ProducerBatch and RecordAccumulator do. */
    private static ObjectNode write(JsonNode request) throws IOException {
        byte magic = (byte) request.get("magic").asInt();
        CompressionType codec = CompressionType.forName(request.get("compression").asText());
        CompressionRatioEstimator.resetEstimation("topic");
        JsonNode records = request.get("records");
        ByteArrayOutputStream written = new ByteArrayOutputStream();
        ArrayNode counts = JSON.createArrayNode();
        for (int row = 0; row < records.size(); ) {
            long offset = request.get("base_offset").asLong() + row;
            int sequence = request.get("base_sequence").asInt();
            JsonNode opening = records.get(row);
            int room = AbstractRecords.estimateSizeInBytesUpperBound(magic, codec,
                Utils.wrapNullable(opening.get(1).binaryValue()), Utils.wrapNullable(opening.get(2).binaryValue()),
                headers(opening.get(3)));
            MemoryRecordsBuilder batch = new MemoryRecordsBuilder(
                new ByteBufferOutputStream(1024), magic, Compression.of(codec).build(),
                magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : timestampType(request),
                offset, request.get("append_time_ms").asLong(), request.get("producer_id").asLong(),
                (short) request.get("producer_epoch").asInt(),
                sequence < 0 ? sequence : DefaultRecordBatch.incrementSequence(sequence, row),
                request.get("is_transactional").asBoolean(), false, request.get("leader_epoch").asInt(),
                Math.max(request.get("batch_size").asInt(), room));
            batch.setEstimatedCompressionRatio(CompressionRatioEstimator.estimation("topic", codec));
            int first = row;
            for (; row < records.size(); row++) {
                JsonNode record = records.get(row);
                long timestamp = record.get(0).asLong();
                ByteBuffer key = Utils.wrapNullable(record.get(1).binaryValue());
                ByteBuffer value = Utils.wrapNullable(record.get(2).binaryValue());
                Header[] headers = headers(record.get(3));
                if (!batch.hasRoomFor(timestamp, key, value, headers)) break;
                batch.append(timestamp, key, value, headers);
            }
            written.write(Utils.toArray(batch.build().buffer()));
            CompressionRatioEstimator.updateEstimation("topic", codec, (float) batch.compressionRatio());
            counts.add(row - first);
        }
        ObjectNode answer = JSON.createObjectNode().put("data", written.toByteArray());
        answer.set("counts", counts);
        return answer;
    }

    private static TimestampType timestampType(JsonNode request) {
        return request.get("timestamp_type").asInt() == 0 ? TimestampType.CREATE_TIME : TimestampType.LOG_APPEND_TIME;
    }

    private static Header[] headers(JsonNode given) throws IOException {
        Header[] headers = new Header[given.size()];
        for (int i = 0; i < headers.length; i++)
            headers[i] = new RecordHeader(given.get(i).get(0).asText(), given.get(i).get(1).binaryValue());
        return headers;
    }

    private static ArrayNode read(JsonNode request) throws IOException {
        ArrayNode read = JSON.createArrayNode();
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(request.get("data").binaryValue()));
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                record.ensureValid();
                ArrayNode row = read.addArray().add(record.offset()).add(record.timestamp());
                row.add(record.hasKey() ? Utils.toArray(record.key()) : null);
                row.add(record.hasValue() ? Utils.toArray(record.value()) : null);
                ArrayNode headers = row.addArray();
                for (Header header : record.headers()) headers.addArray().add(header.key()).add(header.value());
            }
        }
        return read;
    }
}
