import java.io.File;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Scanner;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.ByteBufferOutputStream;
import org.apache.kafka.common.utils.Utils;

/**
 * RecordsWriter SEGMENT COUNT BATCH_BYTES. Loads the first COUNT records of the segment into memory. For each line of
 * standard input, which is a codec, writes batches of them as the producer does, on one thread, and prints the number of
 * records, the seconds it took and the bytes written.
 */
public final class RecordsWriter {
    private record Content(long timestamp, byte[] key, byte[] value) { }

    private static volatile long kept; // uses the result, so that the compiler cannot remove the work

    public static void main(String[] arguments) throws Exception {
        List<Content> contents = contents(new File(arguments[0]), Integer.parseInt(arguments[1]));
        int batchBytes = Integer.parseInt(arguments[2]);
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            Compression compression = Compression.of(CompressionType.forName(lines.nextLine())).build();
            long started = System.nanoTime();
            long bytes = write(contents, compression, batchBytes);
            double seconds = (System.nanoTime() - started) / 1e9;
            kept = bytes;
            System.out.println(contents.size() + " " + seconds + " " + bytes);
        }
    }

    private static List<Content> contents(File segment, int count) throws Exception {
        List<Content> contents = new ArrayList<>(count);
        try (FileRecords records = FileRecords.open(segment)) {
            for (Record record : records.records()) {
                contents.add(new Content(record.timestamp(), Utils.toNullableArray(record.key()),
                    Utils.toNullableArray(record.value())));
                if (contents.size() == count) break;
            }
        }
        return contents;
    }

    /** Writes as the producer does: into a pooled buffer, guessing what still fits from the compression ratio so far. */
    private static long write(List<Content> contents, Compression compression, int batchBytes) {
        ByteBuffer pooled = ByteBuffer.allocate(batchBytes);
        float ratio = 1.0f;
        long bytes = 0;
        int i = 0;
        while (i < contents.size()) {
            pooled.clear();
            MemoryRecordsBuilder builder = new MemoryRecordsBuilder(new ByteBufferOutputStream(pooled), (byte) 2,
                compression, TimestampType.CREATE_TIME, 0L, -1L, -1L, (short) -1, -1, false, false, -1, batchBytes);
            builder.setEstimatedCompressionRatio(ratio);
            while (i < contents.size()) {
                Content content = contents.get(i);
                if (!builder.hasRoomFor(content.timestamp, content.key, content.value, Record.EMPTY_HEADERS)) break;
                builder.append(content.timestamp, content.key, content.value);
                i++;
            }
            bytes += builder.build().sizeInBytes();
            if (compression.type() != CompressionType.NONE) ratio = (float) builder.compressionRatio();
        }
        return bytes;
    }
}
