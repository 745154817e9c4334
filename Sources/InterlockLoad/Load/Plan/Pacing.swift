/// When operations begin.
public enum Pacing: Hashable, Sendable {
    /// So many a second on average, as independent callers come (a Poisson process), whether sidecars keep up or not.
    /// Latencies are counted from when an operation was due, so that a stall is paid by all who came during it and not
    /// only by those who happened to be under way ("coordinated omission", Tene, "How NOT to Measure Latency", 2015).
    case openLoop(rate: Double)
    /// Each client begins the next as soon as it has ended one: for finding the highest throughput. Its latencies are
    /// those of callers who wait for slow answers before they come again, and say little of others'.
    case closedLoop
}
