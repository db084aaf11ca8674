import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.apache.kafka.common.DirectoryId;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Changes partitions with Apache Kafka's own controller code.
 *
 * <p>A line of input has the state of a partition and the wanted change, in words: see elections.py. A list is
 * "[1,2,3]"; "-" means "no change". The line of output has the fields of the record, or "none", or "!" and the error.
 * Java runs this file as it is.
 */
public class Elections {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        PrintStream answers = new PrintStream(System.out, false);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer;
            try {
                answer = change(line.split(" ", -1));
            } catch (Exception exception) {
                answer = "!" + exception.toString().replace('\n', ' ');
            }
            answers.println(answer);
        }
        answers.flush();
    }

    private static String change(String[] words) {
        int[] replicas = numbers(words[0]);
        Uuid[] directories = new Uuid[replicas.length];
        Arrays.fill(directories, DirectoryId.UNASSIGNED);
        PartitionRegistration partition = new PartitionRegistration.Builder()
            .setReplicas(replicas)
            .setDirectories(directories)
            .setIsr(numbers(words[1]))
            .setElr(numbers(words[2]))
            .setLastKnownElr(numbers(words[3]))
            .setAddingReplicas(numbers(words[4]))
            .setRemovingReplicas(numbers(words[5]))
            .setLeader(Integer.parseInt(words[6]))
            .setLeaderRecoveryState(LeaderRecoveryState.of(Byte.parseByte(words[7])))
            .setLeaderEpoch(100)
            .setPartitionEpoch(200)
            .build();
        List<Integer> acceptable = list(words[8]);
        PartitionChangeBuilder builder = new PartitionChangeBuilder(
            partition,
            Uuid.ONE_UUID,
            0,
            acceptable::contains,
            MetadataVersion.latestTesting(),
            Integer.parseInt(words[9]),
            Boolean.parseBoolean(words[10]));
        builder.setElection(PartitionChangeBuilder.Election.valueOf(words[11]));
        if (!words[12].equals("-")) builder.setTargetIsr(list(words[12]));
        if (!words[13].equals("-")) builder.setTargetReplicas(list(words[13]));
        if (!words[14].equals("-")) builder.setTargetAdding(list(words[14]));
        if (!words[15].equals("-")) builder.setTargetRemoving(list(words[15]));
        if (!words[16].equals("[]")) builder.setUncleanShutdownReplicas(list(words[16]));
        if (!words[17].equals("-")) {
            builder.setTargetLeaderRecoveryState(LeaderRecoveryState.of(Byte.parseByte(words[17])));
        }
        builder.setDefaultDirProvider(broker -> DirectoryId.UNASSIGNED);
        Optional<ApiMessageAndVersion> built = builder.build();
        if (built.isEmpty()) return "none";
        PartitionChangeRecord record = (PartitionChangeRecord) built.get().message();
        return String.join(
            " ",
            text(record.isr()),
            Integer.toString(record.leader()),
            text(record.replicas()),
            text(record.removingReplicas()),
            text(record.addingReplicas()),
            Integer.toString(record.leaderRecoveryState()),
            text(record.eligibleLeaderReplicas()),
            text(record.lastKnownElr()));
    }

    private static List<Integer> list(String word) {
        return Arrays.stream(numbers(word)).boxed().toList();
    }

    private static int[] numbers(String word) {
        String inner = word.substring(1, word.length() - 1);
        if (inner.isEmpty()) return new int[0];
        return Arrays.stream(inner.split(",")).mapToInt(Integer::parseInt).toArray();
    }

    private static String text(List<Integer> list) {
        return list == null ? "-" : list.toString().replace(" ", "");
    }
}
