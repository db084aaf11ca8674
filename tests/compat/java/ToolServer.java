import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command-line tools one after the other in one JVM, since starting a JVM takes longer than most tools.
 *
 * <p>Each line of stdin is {@code {"tool": class, "args": [...], "stdin": text}}; each is answered by one line of
 * {@code {"status": n, "stdout": text, "stderr": text}}. A tool that wants to exit is stopped there with its status, and its
 * shutdown hooks run before the answer, as they would if the JVM really ended.
 */
public final class ToolServer {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Not an Exception: tools catch those. */
    @SuppressWarnings("serial")
    private static final class Exited extends Error {
        Exited() {
            super("exit", null, false, false);
        }
    }

    /** The first exit status of a tool: some catch even an Error, and then exit again with another status. */
    private static Integer exitStatus;

    private static void exit(int status) {
        if (exitStatus == null) {
            exitStatus = status;
        }
        throw new Exited();
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        List<Runnable> hooks = Collections.synchronizedList(new ArrayList<>());
        Exit.setExitProcedure((status, message) -> exit(status));
        Exit.setHaltProcedure((status, message) -> exit(status));
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            JsonNode request = JSON.readTree(line);
            ByteArrayOutputStream output = new ByteArrayOutputStream();
            ByteArrayOutputStream errors = new ByteArrayOutputStream();
            System.setOut(new PrintStream(output, true, "UTF-8"));
            System.setErr(new PrintStream(errors, true, "UTF-8"));
            InputStream input = new ByteArrayInputStream(request.path("stdin").asText("").getBytes(StandardCharsets.UTF_8));
            System.setIn(input);
            int status = run(request, hooks);
            System.out.flush();
            System.err.flush();
            ObjectNode answer = JSON.createObjectNode();
            answer.put("status", status);
            answer.put("stdout", output.toString("UTF-8"));
            answer.put("stderr", errors.toString("UTF-8"));
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
    }

    private static int run(JsonNode request, List<Runnable> hooks) {
        exitStatus = null;
        int status = 0;
        try {
            List<String> words = new ArrayList<>();
            request.path("args").forEach(word -> words.add(word.asText()));
            Class.forName(request.path("tool").asText())
                    .getMethod("main", String[].class)
                    .invoke(null, (Object) words.toArray(new String[0]));
        } catch (InvocationTargetException wrapped) {
            status = statusOf(wrapped.getCause());
        } catch (Throwable failure) {
            status = statusOf(failure);
        }
        for (Runnable hook : new ArrayList<>(hooks)) {
            hook.run();
        }
        hooks.clear();
        return status;
    }

    private static int statusOf(Throwable failure) {
        if (failure instanceof Exited) {
            return exitStatus;
        }
        failure.printStackTrace();
        return 1;
    }
}
