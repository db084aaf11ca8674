import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Reads messages with Apache Kafka's own classes and writes them anew.
 *
 * <p>A line of input is a class name under org.apache.kafka, a version and the message in hex. The line of output that
 * answers it is the message as Kafka writes it, in hex, or "!" and what went wrong. Java runs this file as it is.
 */
public class Oracle {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        Map<String, Supplier<Message>> classes = new HashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        PrintStream answers = new PrintStream(System.out, false);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            String answer;
            try {
                Message message = classes.computeIfAbsent(words[0], Oracle::maker).get();
                answer = HEX.formatHex(rewrite(message, Short.parseShort(words[1]), HEX.parseHex(words[2])));
            } catch (Exception exception) {
                answer = "!" + exception.toString().replace('\n', ' ');
            }
            answers.println(answer);
        }
        answers.flush();
    }

    private static Supplier<Message> maker(String name) {
        try {
            var constructor = Class.forName("org.apache.kafka." + name).getDeclaredConstructor();
            return () -> {
                try {
                    return (Message) constructor.newInstance();
                } catch (ReflectiveOperationException exception) {
                    throw new IllegalStateException(exception);
                }
            };
        } catch (ReflectiveOperationException exception) {
            throw new IllegalArgumentException(exception);
        }
    }

    private static byte[] rewrite(Message message, short version, byte[] bytes) {
        ByteBufferAccessor input = new ByteBufferAccessor(ByteBuffer.wrap(bytes));
        message.read(input, version);
        if (input.remaining() > 0) {
            throw new IllegalArgumentException(input.remaining() + " bytes were left unread");
        }
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer output = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(output), cache, version);
        return output.array();
    }
}
