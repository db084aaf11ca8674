import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;

/**
 * Runs what Java programs use of a cluster, beyond what Kafka's tools do.
 *
 * <p>{@code ClientScenarios BOOTSTRAP} runs all scenarios without groups, {@code ClientScenarios BOOTSTRAP groups} those of
 * groups, and {@code ClientScenarios BOOTSTRAP transactions} those of transactions. Each prints a line {@code name TAB ok} or {@code name TAB what went wrong}.
 */
public final class ClientScenarios {
    public static void main(String[] args) {
        Cluster cluster = new Cluster(args[0]);
        Map<String, Scenario> all = new TreeMap<>();
        if (args.length > 1 && args[1].equals("transactions")) {
            all.putAll(new TransactionScenarios(cluster).all());
        } else if (args.length > 1) {
            all.putAll(new GroupScenarios(cluster).all());
        } else {
            all.putAll(new DataScenarios(cluster).all());
            all.putAll(new AdminScenarios(cluster).all());
        }
        all.forEach((name, scenario) -> System.out.println(name + "\t" + outcome(scenario)));
        cluster.admin.close();
    }

    private static String outcome(Scenario scenario) {
        try {
            scenario.run();
            return "ok";
        } catch (Throwable failure) {
            String place = Arrays.stream(failure.getStackTrace())
                    .filter(frame -> frame.getClassName().endsWith("Scenarios"))
                    .map(StackTraceElement::toString)
                    .findFirst()
                    .orElse("an unknown place");
            return (failure + " at " + place).replace('\n', ' ').replace('\t', ' ');
        }
    }
}
