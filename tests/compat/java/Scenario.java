/** An expectation of a program about a cluster. */
interface Scenario {
    /** Throws if it fails. */
    void run() throws Exception;
}
