import java.io.File;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Scanner;
import org.apache.kafka.common.record.FileLogInputStream;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;

/**
 * RecordsReader SEGMENT... For each line of standard input, reads all segments once, on one thread, with the method that
 * the line names (memory, file or headers), and prints the number of records and the seconds it took.
 */
public final class RecordsReader {
    private static final int CHUNK_BYTES = 4 << 20;
    private static long records;
    private static long touched;
    private static volatile long kept; // uses `touched`, so that the compiler cannot remove the reads

    public static void main(String[] segments) throws Exception {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String method = lines.nextLine();
            records = 0;
            touched = 0;
            long started = System.nanoTime();
            for (String segment : segments) {
                switch (method) {
                    case "memory" -> memoryRecords(Path.of(segment));
                    case "file" -> fileRecords(new File(segment));
                    case "headers" -> headers(new File(segment));
                    default -> throw new IllegalArgumentException(method);
                }
            }
            kept = touched;
            System.out.println(records + " " + (System.nanoTime() - started) / 1e9);
        }
    }

    /** Reads as a consumer does with fetched bytes: check CRCs, decompress into reused buffers, iterate records. */
    private static void memoryRecords(Path segment) throws Exception {
        BufferSupplier buffers = BufferSupplier.create();
        ByteBuffer chunk = ByteBuffer.allocate(CHUNK_BYTES);
        try (FileChannel channel = FileChannel.open(segment, StandardOpenOption.READ)) {
            long position = 0;
            while (position < channel.size()) {
                chunk.clear();
                while (chunk.hasRemaining() && channel.read(chunk, position + chunk.position()) > 0) { }
                chunk.flip();
                long used = 0;
                for (MutableRecordBatch batch : MemoryRecords.readableRecords(chunk).batches()) {
                    used += batch.sizeInBytes();
                    batch.ensureValid();
                    try (CloseableIterator<Record> each = batch.streamingIterator(buffers)) {
                        while (each.hasNext()) touch(each.next());
                    }
                }
                if (used == 0) throw new IllegalStateException(segment + ": no whole batch at " + position);
                position += used;
            }
        }
    }

    /** Reads as the broker and its tools do. */
    private static void fileRecords(File segment) throws Exception {
        try (FileRecords file = FileRecords.open(segment, false)) {
            for (FileLogInputStream.FileChannelRecordBatch batch : file.batches()) {
                batch.ensureValid();
                for (Record record : batch) touch(record);
            }
        }
    }

    private static void headers(File segment) throws Exception {
        try (FileRecords file = FileRecords.open(segment, false)) {
            for (FileLogInputStream.FileChannelRecordBatch batch : file.batches()) {
                records += batch.countOrNull();
                touched += batch.lastOffset() + batch.maxTimestamp();
            }
        }
    }

    private static void touch(Record record) {
        records++;
        ByteBuffer key = record.key();
        ByteBuffer value = record.value();
        touched += record.offset() + record.timestamp() + key.remaining() + key.get(key.position())
            + value.remaining() + value.get(value.position());
    }
}
