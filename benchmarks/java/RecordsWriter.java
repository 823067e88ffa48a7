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
 * RecordsWriter SEGMENT COUNT BATCH_BYTES. Takes the first COUNT records of the segment into memory. Each line of
 * standard input, CODEC, makes batches of them as the producer does, on one thread; the answer is how many records there
 * were, the seconds it took and the bytes that came out.
 */
public final class RecordsWriter {
    private record Content(long timestamp, byte[] key, byte[] value) { }

    private static volatile long kept; // what came out is used, so that no compiler can leave it out

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

    /** As the producer: a pooled buffer, and the ratio of compression seen so far to guess what still fits. */
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
