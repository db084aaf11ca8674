/** Something that a program expects of a cluster. */
interface Scenario {
    /** Throws if it does not hold. */
    void run() throws Exception;
}
