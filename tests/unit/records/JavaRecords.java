// The records of Apache Kafka's own Java client, as an oracle for ours.
//
//   write DIRECTORY   files of sample records in every format and codec, named v<format>-<codec>.bin
//   read FILE...      the records of files that we made, checked, one line each; then a line with the file's batches

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;

public class JavaRecords {
    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("write")) {
            write(Path.of(arguments[1]));
        } else {
            for (int i = 1; i < arguments.length; i++) read(Path.of(arguments[i]));
        }
    }

    static void write(Path directory) throws Exception {
        for (CompressionType codec : CompressionType.values()) {
            for (byte magic = 0; magic <= 2; magic++) {
                if (magic < 2 && codec == CompressionType.ZSTD) continue;
                save(directory, "v" + magic + "-" + codec.name, build(magic, codec, TimestampType.CREATE_TIME));
            }
        }
        save(directory, "v1-gzip-append-time", build((byte) 1, CompressionType.GZIP, TimestampType.LOG_APPEND_TIME));
        save(directory, "v2-none-append-time", build((byte) 2, CompressionType.NONE, TimestampType.LOG_APPEND_TIME));
        save(directory, "v2-commit", MemoryRecords.withEndTransactionMarker(
            40L, 1_700_000_000_000L, 5, 77L, (short) 3, new EndTransactionMarker(ControlRecordType.COMMIT, 9)));
    }

    static MemoryRecords build(byte magic, CompressionType codec, TimestampType timestampType) {
        boolean isBatch = magic == 2;
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 16), magic,
            Compression.of(codec).build(), timestampType, 1000L, 1_800_000_000_000L,
            isBatch ? 77L : -1L, isBatch ? (short) 3 : (short) -1, isBatch ? 20 : -1, isBatch, isBatch ? 5 : -1);
        for (int i = 0; i < 600; i++) {
            byte[] key = i % 3 == 0 ? null : utf8("key-" + i);
            byte[] value = i % 5 == 0 ? null : utf8("value-" + i + "-" + "x".repeat(i));
            Header[] headers = new Header[isBatch ? i % 3 : 0];
            for (int j = 0; j < headers.length; j++) {
                headers[j] = new RecordHeader("härder-" + j, j == 1 ? null : new byte[] {(byte) i, (byte) j});
            }
            builder.appendWithOffset(1000L + i, 1_700_000_000_000L + i * 7L, key, value, headers);
        }
        return builder.build();
    }

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static void save(Path directory, String name, MemoryRecords records) throws Exception {
        Files.write(directory.resolve(name + ".bin"), bytes(records.buffer()));
    }

    static void read(Path path) throws Exception {
        StringBuilder out = new StringBuilder();
        StringBuilder batches = new StringBuilder();
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(Files.readAllBytes(path))).batches()) {
            batch.ensureValid();
            batches.append(' ').append(batch.magic()).append('/').append(batch.compressionType().name)
                .append('/').append(batch.timestampType().name).append('/').append(batch.isControlBatch());
            for (Record record : batch) {
                record.ensureValid();
                out.append(record.offset()).append(' ').append(record.timestamp())
                    .append(' ').append(hex(record.key())).append(' ').append(hex(record.value()));
                for (Header header : record.headers()) {
                    out.append(' ').append(hex(ByteBuffer.wrap(utf8(header.key())))).append('=')
                        .append(hex(header.value() == null ? null : ByteBuffer.wrap(header.value())));
                }
                out.append('\n');
            }
        }
        System.out.print(out);
        System.out.println(path.getFileName().toString() + batches);
    }

    static String hex(ByteBuffer data) {
        return data == null ? "null" : '"' + HexFormat.of().formatHex(bytes(data)) + '"';
    }

    static byte[] bytes(ByteBuffer buffer) {
        byte[] copy = new byte[buffer.remaining()];
        buffer.duplicate().get(copy);
        return copy;
    }
}
